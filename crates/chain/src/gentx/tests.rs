//! Test vectors of the signed bytes.

use zeroize::Zeroizing;

use super::*;
use crate::text::{hex, sha256};

const BODY: &str = "0aae020a2a2f636f736d6f732e7374616b696e672e763162657461312e4d736743726561746556616c696461746f7212ff010a070a0576616c2d30123b0a1231303030303030303030303030303030303012123230303030303030303030303030303030301a1131303030303030303030303030303030301a0131222a736569317235763573726461377866746833686e327332367478767263726e746c646a756b386b6433372a3173656976616c6f706572317235763573726461377866746833686e327332367478767263726e746c646a7567673872737732430a1d2f636f736d6f732e63727970746f2e656432353531392e5075624b657912220a208139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b3943a100a047573656912083130303030303030123833343735306639386264353966636663393436646134356161616265393333626531353461346235403139322e302e322e313a3236363536";
const AUTH: &str = "0a4e0a460a1f2f636f736d6f732e63727970746f2e736563703235366b312e5075624b657912230a2102ba66a84cf7839af172a13e7fc9f5e7008cb8bca1585f8f3bafb3039eda3c1fdd12040a020801";

fn signed(gas_limit: u64) -> Gentx {
    let consensus = crate::identity::ConsensusKey::from_seed(&Zeroizing::new([2; 32]));
    let node = crate::identity::NodeKey::from_seed(&Zeroizing::new([1; 32]));
    let declaration = GentxParams {
        chain_id: "gx-vec-1",
        moniker: "val-0",
        node_id: &node.id(),
        address: "192.0.2.1",
        consensus_key: consensus.public(),
        stake: &Coin::parse("10000000usei").unwrap(),
        gas_limit,
    };
    Gentx::sign(&declaration, &AccountKey::test_vector()).unwrap()
}

#[test]
fn sign_bytes_match_test_vector() {
    for (gas, fee, length, hash) in [
        (0, "1200", 460, "1f69a00a0cb0cbfe38622e877dfd023f876b4e8a2eeaea080b9022b454aaa2b1"),
        (200_000, "120410c09a0c", 464, "b9cf17206f8a6354ebfadba887d19463a70cf13e99e36afdee2a4ea60641d724"),
    ] {
        let tx = signed(gas).tx;
        assert_eq!(hex(&tx.body.to_wire().encode_to_vec()), BODY);
        assert_eq!(hex(&tx.auth_info.to_wire().encode_to_vec()), format!("{AUTH}{fee}"));
        let bytes = sign_bytes(&tx, "gx-vec-1");
        assert_eq!((bytes.len(), sha256(&bytes).as_str()), (length, hash));
    }
}

#[test]
fn high_s_signature_is_rejected() {
    // The signature with S negated is mathematically valid, but seid rejects it.
    let gentx = signed(0);
    let mut bytes = crate::text::from_base64(&gentx.tx.signatures[0]).unwrap();
    let s = k256::ecdsa::Signature::from_slice(&bytes).unwrap();
    let negated = k256::ecdsa::Signature::from_scalars(s.r().to_bytes(), (-*s.s()).to_bytes()).unwrap();
    bytes.copy_from_slice(&negated.to_bytes());
    let mut tx = gentx.tx;
    tx.signatures = vec![base64(&bytes)];
    assert_eq!(check::validate(tx, "gx-vec-1"), Err(GentxError::Signature("gx-vec-1".into())));
}

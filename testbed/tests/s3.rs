//! The S3 server, accessed with the client library of the product.

#![allow(clippy::expect_used, reason = "tests may panic; clippy recognizes only libtest tests")]

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use testbed::cluster::s3::S3;
use testbed::{Context, TestResult};

testbed::suite![object_round_trips, wrong_secret_is_rejected];

fn client(s3: &S3, secret: &str) -> object_store::Result<AmazonS3> {
    AmazonS3Builder::new()
        .with_endpoint(s3.endpoint())
        .with_allow_http(true)
        .with_region(S3::REGION)
        .with_bucket_name("snapshots")
        .with_access_key_id(S3::ACCESS_KEY_ID)
        .with_secret_access_key(secret)
        .build()
}

async fn object_round_trips(cx: Context) -> TestResult {
    let s3 = S3::start(&cx.site()?).await?;
    s3.create_bucket("snapshots")?;
    let store = client(&s3, S3::SECRET_ACCESS_KEY)?;
    let path = Path::from("chain/height-1000.tar");
    // Larger than one part of a multipart upload, with different content at every offset.
    let content: Vec<u8> = (0..6_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    store.put(&path, PutPayload::from(content.clone())).await?;
    let read = store.get(&path).await?.bytes().await?;
    assert!(read == content, "object was changed: {} bytes of {}", read.len(), content.len());
    let range = store.get_range(&path, 1_000_000..1_000_010).await?;
    assert_eq!(range, content[1_000_000..1_000_010]);
    store.delete(&path).await?;
    let error = store.get(&path).await.expect_err("deleted object was returned");
    assert!(matches!(error, object_store::Error::NotFound { .. }), "{error}");
    s3.check_alive()?;
    Ok(())
}

async fn wrong_secret_is_rejected(cx: Context) -> TestResult {
    let s3 = S3::start(&cx.site()?).await?;
    s3.create_bucket("snapshots")?;
    let result = client(&s3, "wrong")?.put(&Path::from("a"), PutPayload::from_static(b"a")).await;
    let error = result.expect_err("wrong secret was accepted");
    assert!(error.to_string().contains("SignatureDoesNotMatch"), "{error}");
    Ok(())
}

//! Conditions of nodes.

use super::reason::conditions;

conditions! {
    of "SeiNode";

    Ready: "Whether the node runs and matches its spec." {
        NodeReady => True, "The node runs and matches its spec.", "Nothing.";
        Initializing => False, "The node is being set up.", "Wait; `status.waitingFor` shows what the plan is waiting for.";
        Updating => False, "The node is being updated to a changed spec.", "Wait; `status.waitingFor` shows what the plan is waiting for.";
        PlanFailed => False, "A task of the plan failed and has no retries left.", "Read `status.lastFailedPlan` and fix the cause; a change of the spec starts a new plan at once.";
        SidecarNotReady => False, "The sidecar does not let seid start.", "Wait; the operator marks the sidecar ready.";
        SidecarUnreachable => Unknown, "The sidecar does not respond.", "Check the pod and the logs of its containers sei-sidecar and kube-rbac-proxy.";
        PodFailing => False, "A container of the pod does not run.", "Fix the cause in the message; a change of the spec is applied at once.";
        DataVolumeMissing => False, "The data volume is missing on a node that may have signed blocks. With an empty volume it could sign the same heights again and be slashed.", "Restore the PersistentVolumeClaim in the message with its data; or delete and recreate the node.";
        DataVolumeTerminating => False, "The PersistentVolumeClaim of the data volume is being deleted. Kubernetes keeps it only while the pod runs, so nothing that replaces the pod is done.", "Save the data as the message says, or delete the node.";
        SeidNotReady => False, "The container seid is not ready, or seid does not answer.", "Wait until seid has started; if this persists, see its log.";
        ChainNotSynced => False, "seid does not follow its chain.", "See the condition ChainSynced.";
        EditPaused => False, "The node is paused, and its spec has changes that are not applied.", "Set `spec.paused` to false to apply them.";
        SpecNotApplied => False, "Part of the spec cannot be applied.", "See the condition SpecApplied.";
        Terminating => False, "The node is being deleted in the foreground, or a finalizer of another controller holds it.", "Wait until garbage collection has deleted what the node owns, or remove the finalizer.";
    }

    NodeUpdateInProgress: "Whether a running node is being updated to a changed spec." {
        UpdateStarted => True, "The node drifted from its spec in something other than TLS.", "Wait; the message lists the drifted fields.";
        TLSToggleStarted => True, "The node drifted from its spec only in the TLS settings of the sidecar.", "Wait; the message lists the drifted fields.";
        UpdateAndTLSToggleStarted => True, "The node drifted from its spec in the TLS settings of the sidecar and in something else.", "Wait; the message lists the drifted fields.";
        RollbackStarted => True, "The last update failed. The node returns to its previous configuration.", "Wait; the condition SpecApplied has the cause.";
        UpdateQueued => False, "The node waits for its turn to be updated to changed settings of the operator or to other objects. It keeps running.", "Wait; the message has the position. An edit of the node itself does not wait.";
        UpdateComplete => False, "The last update succeeded.", "Nothing.";
        UpdateFailed => False, "The last update failed; the node keeps running.", "Read `status.lastFailedPlan`: it has the error, and the time of the next attempt unless an edit or the annotation `outrigger.dev/retry` is needed.";
        NoUpdate => False, "The node is in sync with its spec.", "Nothing.";
    }

    SidecarReady: "Whether the sidecar lets seid run." {
        Ready => True, "The sidecar lets seid run.", "Nothing.";
        NotReady => False, "The sidecar restarted and holds seid back until it is marked ready.", "Wait; the operator marks it ready.";
        Unreachable => Unknown, "The sidecar does not respond, or its response is invalid.", "Check the pod and the logs of its containers sei-sidecar and kube-rbac-proxy.";
        NotProbed => Unknown, "The sidecar was not probed yet.", "Wait until the node is set up.";
    }

    ChainSynced: "Whether seid follows its chain. Heights are metrics: `outrigger_node_height`, `outrigger_node_height_lag` and `outrigger_node_peers`." {
        InSync => True, "seid follows its chain.", "Nothing.";
        CatchingUp => False, "seid is behind its chain and catches up.", "Wait; the metric `outrigger_node_height_lag` shows the progress.";
        Halted => False, "The height did not move for `--chain-halt-timeout`, while other nodes of the chain moved or none is known.", "See the log of seid for why it does not accept the next block; a chain upgrade may need another image.";
        Diverged => False, "After the same block, seid has another app hash than the chain.", "Restore the node from a snapshot, with the image that the chain runs.";
        NoPeers => False, "seid has no peers and does not move.", "Check `spec.peers`, and that the nodes in it are reachable.";
        NotObserved => Unknown, "The state of the chain is not known: the node is not set up, its sidecar is older than this operator, or seid does not answer.", "If this persists, update the image of the sidecar or check the log of seid, as the message says.";
    }

    ImportPVCReady: "Whether the imported volume is usable. Only on nodes that import a volume." {
        PVCValidated => True, "The volume is usable.", "Nothing.";
        PVCNotReady => False, "The PersistentVolumeClaim does not exist or is not bound.", "Create or bind the PersistentVolumeClaim in the message.";
        PVCInUse => False, "Another node uses the PersistentVolumeClaim. Two nodes that write to one volume corrupt it.", "Create a new node with another volume, or delete the node in the message; the node continues when its pod is gone.";
        PVCInvalid => False, "The volume does not meet the requirements of the node.", "Create a new node with a volume that is large enough and has access mode ReadWriteOnce.";
    }

    StorageReady: "Whether the data volume has the size that the spec requests." {
        VolumeSized => True, "The volume has the requested size, or the spec requests none.", "Nothing.";
        VolumeImported => True, "The node imports its volume, whose size is not managed.", "Nothing.";
        VolumePending => Unknown, "The PersistentVolumeClaim does not exist yet or is not bound.", "Wait; if this persists, check the events of the PersistentVolumeClaim in the message.";
        ExpansionPending => False, "A larger size is requested, and the PersistentVolumeClaim cannot be resized yet: it is not bound, or is being deleted.", "Wait; the size is applied as soon as the PersistentVolumeClaim is bound.";
        Resizing => False, "The volume is being expanded.", "Wait; the message has the progress that the storage driver reports.";
        FileSystemResizePending => False, "The volume is expanded, its file system is not.", "Wait; if this persists, the storage driver resizes file systems only when they are mounted: delete the pod once.";
        ExpansionRefused => False, "The API server refuses to resize the PersistentVolumeClaim.", "Read the message, which is the API server's own. If the StorageClass does not allow expansion, set its `allowVolumeExpansion` or set `spec.storage.size` back.";
        ExpansionFailed => False, "The storage driver failed to expand the volume.", "Fix the cause in the message; or set `spec.storage.size` to a size that the driver supports, at least the current capacity.";
        ShrinkRefused => False, "The spec requests less than the volume has. A volume cannot shrink.", "Set `spec.storage.size` to at least the size in the message.";
    }

    SigningKeyReady: "Whether the Secret with the signing key is usable. Only on validators with a signing key." {
        SigningKeyValidated => True, "The Secret is usable.", "Nothing.";
        SigningKeyNotReady => False, "The Secret does not exist yet.", "Create the Secret in the message.";
        SigningKeyInUse => False, "Another node uses the Secret. A key that signs in two places is slashed.", "Create a new node with another key, or delete the node in the message; the node continues when its pod is gone.";
        SigningKeyInvalid => False, "The Secret does not contain a valid signing key.", "Add a valid `priv_validator_key.json` to the Secret.";
    }

    NodeKeyReady: "Whether the Secret with the node key is usable. Only on validators with a node key." {
        NodeKeyValidated => True, "The Secret is usable.", "Nothing.";
        NodeKeyNotReady => False, "The Secret does not exist yet.", "Create the Secret in the message.";
        NodeKeyInvalid => False, "The Secret does not contain a valid node key.", "Add a valid `node_key.json` to the Secret.";
    }

    OperatorKeyringReady: "Whether the Secrets of the operator keyring are usable. Only on validators with an operator keyring." {
        OperatorKeyringValidated => True, "The Secrets are usable.", "Nothing.";
        OperatorKeyringNotReady => False, "A Secret does not exist yet.", "Create the Secret in the message.";
        OperatorKeyringInvalid => False, "A Secret lacks the key or the passphrase.", "Add what the message names to the Secret.";
    }

    SidecarTLSSecretReady: "Whether the prerequisites for TLS of the sidecar are met." {
        TLSNotRequested => True, "The spec does not request TLS.", "Nothing.";
        TLSSecretReady => True, "The certificate exists and is valid for the node.", "Nothing, unless the message says that it expires soon: within 7 days, or within the last sixth of its lifetime if that is shorter.";
        CertificateNotReady => False, "The certificate is not issued yet.", "Wait; if this persists, check the Certificate and its CertificateRequest.";
        CertificateFailed => False, "The issuer failed to issue the certificate.", "Check the Certificate in the message; fix the issuer, or set another one in `spec.sidecar.tls`.";
        TLSSecretNotFound => False, "The Secret does not exist.", "Create the Secret in the message.";
        TLSSecretUnavailable => False, "The Secret cannot be read.", "Check the RBAC permissions of the operator; the message has the API server's response.";
        TLSSecretMalformed => False, "The Secret does not contain a certificate with its private key, or the two do not belong together.", "Use a Secret of type `kubernetes.io/tls` with PEM in `tls.crt` and `tls.key`.";
        TLSSecretSANsMismatch => False, "The certificate is not valid for the host names of the node.", "Issue it for the host names in the message.";
        TLSSecretExpired => False, "The certificate has expired. The pod keeps running with it.", "With an issuer, check the Certificate in the message and its issuer; otherwise replace the Secret. The pod reloads a renewed certificate.";
        TLSSecretNotYetValid => False, "The validity of the certificate starts in the future.", "Wait until the time in the message, or replace the certificate.";
    }
}

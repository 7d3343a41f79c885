//! Conditions of nodes.

use super::reason::conditions;

conditions! {
    of "SeiNode";

    Ready: "Whether the node is as its spec says, and working." {
        NodeReady => True, "The node runs, as the newest spec says.", "Nothing.";
        Initializing => False, "The node is being set up.", "Wait; `status.waitingFor` says for what.";
        Updating => False, "The node is being brought to a changed spec.", "Wait; `status.waitingFor` says for what.";
        PlanFailed => False, "A step failed for good.", "Read `status.lastFailedPlan`; an edit that removes the cause is taken up at once.";
        SidecarNotReady => False, "The sidecar holds seid back.", "Wait; it is told to let seid start.";
        SidecarUnreachable => Unknown, "The sidecar gives no answer.", "Look at the pod and at the logs of its containers sei-sidecar and kube-rbac-proxy.";
        PodFailing => False, "A container of the pod does not run.", "The message says which and why; an edit of the spec is taken up at once.";
        DataVolumeMissing => False, "The volume with the chain's data is gone, and the node may sign: an empty volume would let it sign again what it has signed.", "Restore the claim that the message names with its data; or delete the node and create it anew.";
        SpecNotApplied => False, "A part of the spec cannot be applied.", "See the condition SpecApplied.";
        Terminating => False, "The node is being deleted.", "Wait; `status.waitingFor` says for what.";
    }

    NodeUpdateInProgress: "Whether a running node is being brought to a changed spec." {
        UpdateStarted => True, "Something other than TLS differs from the spec.", "Wait; the message says what differs.";
        TLSToggleStarted => True, "Only TLS of the sidecar differs from the spec.", "Wait; the message says what differs.";
        UpdateAndTLSToggleStarted => True, "TLS of the sidecar and something else differ from the spec.", "Wait; the message says what differs.";
        UpdateComplete => False, "The last update succeeded.", "Nothing.";
        UpdateFailed => False, "The last update failed; the node was left running.", "Read `status.lastFailedPlan`; it is tried again, less and less often.";
        NoUpdate => False, "Nothing differs from the spec.", "Nothing.";
    }

    SidecarReady: "Whether the sidecar lets seid run." {
        Ready => True, "The sidecar lets seid run.", "Nothing.";
        NotReady => False, "The sidecar has restarted and waits to be told that seid may start.", "Wait; it is told.";
        Unreachable => Unknown, "The sidecar gives no answer, or one that says neither.", "Look at the pod and at the logs of its containers sei-sidecar and kube-rbac-proxy.";
        NotProbed => Unknown, "The sidecar was not asked yet.", "Wait until the node is set up.";
    }

    ImportPVCReady: "Whether the volume that the node is to use is fit for it. Only on nodes that import one." {
        PVCValidated => True, "The volume is fit.", "Nothing.";
        PVCNotReady => False, "The volume is not there yet, or not bound.", "Create or bind the claim that the message names.";
        PVCInvalid => False, "The volume can never be used by this node.", "Create a new node with a volume that is large enough and can be written by one pod.";
    }

    SigningKeyReady: "Whether the Secret with the key that signs blocks is usable. Only on validators that have one." {
        SigningKeyValidated => True, "The Secret is usable.", "Nothing.";
        SigningKeyNotReady => False, "The Secret is not there yet.", "Create the Secret that the message names.";
        SigningKeyInvalid => False, "The Secret does not hold a signing key.", "Put a valid `priv_validator_key.json` into it.";
    }

    NodeKeyReady: "Whether the Secret with the key that identifies the node is usable. Only on validators that have one." {
        NodeKeyValidated => True, "The Secret is usable.", "Nothing.";
        NodeKeyNotReady => False, "The Secret is not there yet.", "Create the Secret that the message names.";
        NodeKeyInvalid => False, "The Secret does not hold a node key.", "Put a valid `node_key.json` into it.";
    }

    OperatorKeyringReady: "Whether the Secrets with the operating account's keys are usable. Only on validators that have them." {
        OperatorKeyringValidated => True, "The Secrets are usable.", "Nothing.";
        OperatorKeyringNotReady => False, "A Secret is not there yet.", "Create the Secret that the message names.";
        OperatorKeyringInvalid => False, "A Secret lacks the key or the passphrase.", "Put what the message names into it.";
    }

    SidecarTLSSecretReady: "Whether everything that TLS of the sidecar needs is there." {
        TLSNotRequested => True, "The spec asks for no TLS.", "Nothing.";
        TLSSecretReady => True, "The certificate is there and names the node.", "Nothing.";
        CertificateNotReady => False, "The issuer has not issued the certificate yet.", "Wait; look at the Certificate and its CertificateRequest if it lasts.";
        CertificateFailed => False, "The issuer refused.", "Look at the Certificate that the message names; correct the issuer, or name another one in `spec.sidecar.tls`.";
        TLSSecretNotFound => False, "The Secret is not there.", "Create the Secret that the message names.";
        TLSSecretUnavailable => False, "The Secret cannot be read.", "Check what the operator may read; the message has the API server's answer.";
        TLSSecretMalformed => False, "The Secret holds no certificate with its key.", "Make it a Secret of type `kubernetes.io/tls` with PEM in `tls.crt` and `tls.key`.";
        TLSSecretSANsMismatch => False, "The certificate does not name the node.", "Issue it for the host names in the message.";
    }
}

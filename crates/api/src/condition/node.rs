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
        SpecNotApplied => False, "Part of the spec cannot be applied.", "See the condition SpecApplied.";
        Terminating => False, "The node is being deleted.", "Wait; `status.waitingFor` shows what the deletion is waiting for.";
    }

    NodeUpdateInProgress: "Whether a running node is being updated to a changed spec." {
        UpdateStarted => True, "The node drifted from its spec in something other than TLS.", "Wait; the message lists the drifted fields.";
        TLSToggleStarted => True, "The node drifted from its spec only in the TLS settings of the sidecar.", "Wait; the message lists the drifted fields.";
        UpdateAndTLSToggleStarted => True, "The node drifted from its spec in the TLS settings of the sidecar and in something else.", "Wait; the message lists the drifted fields.";
        UpdateComplete => False, "The last update succeeded.", "Nothing.";
        UpdateFailed => False, "The last update failed; the node keeps running.", "Read `status.lastFailedPlan`; the update is retried with backoff.";
        NoUpdate => False, "The node is in sync with its spec.", "Nothing.";
    }

    SidecarReady: "Whether the sidecar lets seid run." {
        Ready => True, "The sidecar lets seid run.", "Nothing.";
        NotReady => False, "The sidecar restarted and holds seid back until it is marked ready.", "Wait; the operator marks it ready.";
        Unreachable => Unknown, "The sidecar does not respond, or its response is invalid.", "Check the pod and the logs of its containers sei-sidecar and kube-rbac-proxy.";
        NotProbed => Unknown, "The sidecar was not probed yet.", "Wait until the node is set up.";
    }

    ImportPVCReady: "Whether the imported volume is usable. Only on nodes that import a volume." {
        PVCValidated => True, "The volume is usable.", "Nothing.";
        PVCNotReady => False, "The PersistentVolumeClaim does not exist or is not bound.", "Create or bind the PersistentVolumeClaim in the message.";
        PVCInvalid => False, "The volume does not meet the requirements of the node.", "Create a new node with a volume that is large enough and has access mode ReadWriteOnce.";
    }

    SigningKeyReady: "Whether the Secret with the signing key is usable. Only on validators with a signing key." {
        SigningKeyValidated => True, "The Secret is usable.", "Nothing.";
        SigningKeyNotReady => False, "The Secret does not exist yet.", "Create the Secret in the message.";
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
        TLSSecretReady => True, "The certificate exists and is valid for the node.", "Nothing.";
        CertificateNotReady => False, "The certificate is not issued yet.", "Wait; if this persists, check the Certificate and its CertificateRequest.";
        CertificateFailed => False, "The issuer failed to issue the certificate.", "Check the Certificate in the message; fix the issuer, or set another one in `spec.sidecar.tls`.";
        TLSSecretNotFound => False, "The Secret does not exist.", "Create the Secret in the message.";
        TLSSecretUnavailable => False, "The Secret cannot be read.", "Check the RBAC permissions of the operator; the message has the API server's response.";
        TLSSecretMalformed => False, "The Secret does not contain a certificate with its private key.", "Use a Secret of type `kubernetes.io/tls` with PEM in `tls.crt` and `tls.key`.";
        TLSSecretSANsMismatch => False, "The certificate is not valid for the host names of the node.", "Issue it for the host names in the message.";
    }
}

//! Conditions of both nodes and fleets.

use super::reason::conditions;

conditions! {
    of "SeiNode, SeiNodeDeployment";

    SpecApplied: "Whether every field of the spec takes effect. No field is silently ignored." {
        AllApplied => True, "Every field takes effect or is being applied.", "Nothing.";
        FieldsNotApplied => False, "Some fields have no effect on this object.", "Remove or correct the fields in the message.";
        SpecInvalid => False, "The spec cannot be applied.", "Correct what the message names.";
        ReferenceRefused => False, "The operator runs with `--strict-references`, and a Secret or PersistentVolumeClaim that the spec names is not labeled for this node. Nothing of the node is changed.", "Label the object in the message with `sei.io/node` and the name of the node, or name another one.";
        ApplyConflict => False, "Another field manager owns fields of an object that belongs to this one.", "Release the fields in the message, or delete the object.";
        WriteRefused => False, "The API server refuses or fails to write an object of this one: missing permissions, a quota, an admission webhook, a missing kind or an overload.", "Fix the cause in the message, which is the API server's own; the write is retried with backoff.";
        EditQueued => False, "The last edit waits until the work in the message is done.", "Wait; the edit is applied after that.";
        UpdateRolledBack => False, "The update to the spec failed after the pod was replaced. The node runs its previous configuration.", "Edit the spec, or change the annotation `outrigger.dev/retry` to try the same spec again.";
        RolledBack => False, "The annotation `outrigger.dev/rollback-to` keeps the nodes at an older revision than the spec.", "Remove the annotation to roll out the spec.";
        ScaleDownHeld => False, "The spec requests fewer nodes, and a node to be removed signs blocks.", "Annotate the node in the message with `outrigger.dev/allow-removal=true`, or increase `spec.replicas`.";
        NameConflict => False, "An object with the name of a node of this fleet belongs to something else.", "Rename or delete the object in the message, or label it for adoption.";
        AdoptedNodePending => False, "The node was taken over from another controller. Its next edit also applies what the message lists.", "Edit the spec when the pod may be replaced.";
        NotEvaluated => Unknown, "The spec was not evaluated yet.", "Wait.";
    }

    Paused: "Whether reconciliation is paused." {
        Paused => True, "Reconciliation is paused; the message lists pending changes.", "Set `spec.paused` to false to resume.";
        NotPaused => False, "The object is reconciled.", "Nothing.";
    }
}

//! Conditions of nodes and fleets alike.

use super::reason::conditions;

conditions! {
    of "SeiNode, SeiNodeDeployment";

    SpecApplied: "Whether every field of the spec has its effect. No field is ignored in silence." {
        AllApplied => True, "Every field has its effect, or is being brought to it.", "Nothing.";
        FieldsNotApplied => False, "Fields were accepted, and have no effect on this object.", "Remove or correct the fields that the message names.";
        SpecInvalid => False, "The spec cannot be carried out.", "Correct what the message names.";
        ApplyConflict => False, "Someone else owns fields of an object that belongs to this one.", "Let go of the fields that the message names, or delete the object.";
        NotEvaluated => Unknown, "The spec was not looked at yet.", "Wait.";
    }

    Paused: "Whether the object is left as it is." {
        Paused => True, "The spec says so; the message says what would be done otherwise.", "Set `spec.paused` to false to go on.";
        NotPaused => False, "The object is kept as its spec says.", "Nothing.";
    }
}

//! Conditions of fleets.

use super::reason::conditions;

conditions! {
    of "SeiNodeDeployment";

    NodesReady: "Whether every node of the fleet runs." {
        AllNodesReady => True, "Every node runs.", "Nothing.";
        NodesInitializing => False, "Nodes are being set up.", "Wait; `kubectl get snode` shows for what.";
        NodesFailed => False, "Nodes failed.", "Look at the nodes that the message names.";
    }

    PlanInProgress: "Whether something is being done to the fleet." {
        PlanStarted => True, "A plan is being carried out.", "Wait; `status.waitingFor` says for what.";
        PlanComplete => False, "The last plan succeeded.", "Nothing.";
        PlanFailed => False, "The last plan failed.", "Read `status.lastFailedPlan`; an edit that removes the cause is taken up at once.";
        NoPlan => False, "Nothing needs to be done.", "Nothing.";
    }

    RolloutInProgress: "Whether nodes are being brought to a changed template." {
        TemplateChanged => True, "The template changed, and not all nodes are as it says.", "Wait; `status.nodes` shows how far each is.";
        RolloutComplete => False, "Every node is as the template says.", "Nothing.";
        RolloutFailed => False, "A node could not be brought to the template.", "Look at the nodes that the message names; it is tried again after an edit.";
        NoRollout => False, "The template has not changed.", "Nothing.";
    }

    GenesisCeremonyNeeded: "Whether a new chain has to be made." {
        GenesisConfigured => True, "The spec asks for a new chain, and it is not made yet.", "Wait.";
        GenesisDone => False, "The chain is made.", "Nothing.";
        GenesisNotRequested => False, "The spec asks for no new chain.", "Nothing.";
    }

    GenesisCeremonyComplete: "Whether the new chain is made." {
        CeremonyComplete => True, "The chain is made and its nodes run.", "Nothing.";
        CeremonyNotStarted => False, "The nodes are not there yet.", "Wait.";
        CeremonyInProgress => False, "The chain is being made.", "Wait; `status.waitingFor` says for what.";
        CeremonyFailed => False, "The chain could not be made.", "Read `status.lastFailedPlan`; it is tried again.";
        CeremonyNotApplicable => False, "The spec asks for no new chain.", "Nothing.";
    }

    RouteReady: "Whether the fleet is reached from outside as its spec says." {
        HTTPRouteReady => True, "The routes are there.", "Nothing.";
        NotPublished => True, "The spec asks for no publication.", "Nothing.";
        CRDNotInstalled => False, "The cluster has no Gateway API.", "Install the Gateway API, or remove `spec.networking`.";
        DNSPending => False, "The host names do not resolve yet.", "Wait, or look at what writes DNS records for the gateway. Nodes are not held back by it.";
    }
}

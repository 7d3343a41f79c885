//! Conditions of fleets.

use super::reason::conditions;

conditions! {
    of "SeiNodeDeployment";

    NodesReady: "Whether all nodes of the fleet run." {
        AllNodesReady => True, "All nodes run.", "Nothing.";
        NodesInitializing => False, "Nodes are being set up.", "Wait; `kubectl get snode` shows their progress.";
        NodesFailed => False, "Nodes failed.", "Check the nodes in the message.";
    }

    PlanInProgress: "Whether a plan of the fleet is being executed." {
        PlanStarted => True, "A plan is being executed.", "Wait; `status.waitingFor` shows what the plan is waiting for.";
        PlanComplete => False, "The last plan succeeded.", "Nothing.";
        PlanFailed => False, "The last plan failed.", "Read `status.lastFailedPlan` and fix the cause; a change of the spec starts a new plan at once.";
        NoPlan => False, "No plan is needed.", "Nothing.";
    }

    RolloutInProgress: "Whether a changed template is being rolled out." {
        TemplateChanged => True, "The template changed, and not all nodes match it yet.", "Wait; `status.nodes` shows the progress of each node.";
        RolloutComplete => False, "All nodes match the template.", "Nothing.";
        RolloutFailed => False, "A node could not be updated to the template.", "Check the nodes in the message; a change of the spec starts a new rollout.";
        NoRollout => False, "The template has not changed.", "Nothing.";
    }

    GenesisCeremonyNeeded: "Whether a new chain has to be created." {
        GenesisConfigured => True, "The spec requests a new chain, which does not exist yet.", "Wait.";
        GenesisDone => False, "The chain exists.", "Nothing.";
        GenesisNotRequested => False, "The spec does not request a new chain.", "Nothing.";
    }

    GenesisCeremonyComplete: "Whether the new chain has been created." {
        CeremonyComplete => True, "The chain has been created and its nodes run.", "Nothing.";
        CeremonyNotStarted => False, "The nodes do not exist yet.", "Wait.";
        CeremonyInProgress => False, "The chain is being created.", "Wait; `status.waitingFor` shows what the plan is waiting for.";
        CeremonyFailed => False, "The chain could not be created.", "Read `status.lastFailedPlan`; the ceremony is retried.";
        CeremonyNotApplicable => False, "The spec does not request a new chain.", "Nothing.";
    }

    RouteReady: "Whether the fleet is reachable from outside the cluster, if the spec requests it." {
        HTTPRouteReady => True, "The routes exist.", "Nothing.";
        NotPublished => True, "The spec does not request publication.", "Nothing.";
        CRDNotInstalled => False, "The Gateway API is not installed in the cluster.", "Install the Gateway API, or remove `spec.networking`.";
        DNSPending => False, "The host names do not resolve yet.", "Wait, or check the controller that manages the DNS records of the gateway. Nodes are not affected.";
    }
}

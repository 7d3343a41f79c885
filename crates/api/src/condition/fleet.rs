//! Conditions of fleets.

use super::reason::conditions;

conditions! {
    of "SeiNodeDeployment";

    NodesReady: "Whether all nodes of the fleet run." {
        AllNodesReady => True, "All nodes run.", "Nothing.";
        NodesInitializing => False, "Nodes are being set up.", "Wait; `kubectl get snode` shows their progress.";
        NodesFailed => False, "Nodes failed.", "Check the nodes in the message.";
    }

    Available: "Whether enough nodes of the fleet are available: ready, and following their chain." {
        EnoughNodesAvailable => True, "At most `maxUnavailable` nodes are not available.", "Nothing.";
        TooManyUnavailable => False, "More nodes are not available than `maxUnavailable` allows.", "Check the nodes in the message.";
        NodesNotEstablished => False, "Nodes that were never available are being set up.", "Wait; `status.nodes` shows the state of each node.";
    }

    QuorumSafe: "Whether validators can be updated without halting their chain." {
        QuorumKept => True, "The validators that are not being updated have more than two thirds of the voting power.", "Nothing.";
        NoValidators => True, "The fleet has no validators.", "Nothing.";
        ChainHaltAllowed => True, "`updateStrategy.allowChainHalt` allows updates that halt the chain.", "Nothing.";
        QuorumHeld => False, "The next validator is not updated now, because the chain would halt.", "Wait until the validators in the message are available again, or set `updateStrategy.allowChainHalt`.";
        QuorumImpossible => False, "A single validator has a third of the voting power or more: its update halts the chain.", "Set `updateStrategy.allowChainHalt` for this update.";
        VotingPowerUnknown => Unknown, "The voting power of the validators is not known.", "Wait until their sidecars report it; if this persists, update the image of the sidecar or set `updateStrategy.allowChainHalt`.";
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
        RolloutStalled => False, "A node that was updated to the template is not available. No other node is updated.", "Check the node in the message. An edit of the template goes to this node first; the rollout continues by itself if the node recovers.";
        RolloutPaused => False, "The rollout is paused by `spec.paused` or the annotation `outrigger.dev/rollout-paused`.", "Set `spec.paused` to false, or remove the annotation.";
        ProbePathSuspect => False, "More nodes stopped answering at once than the rollout may disrupt, while their pods are ready. The rollout waits.", "Check the network between the operator and the sidecars of the nodes.";
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
        RoutesNotManaged => False, "The Service of the fleet exists. The operator does not create routes.", "Create HTTPRoutes for the Service `<fleet>-external`.";
        CRDNotInstalled => False, "The Gateway API is not installed in the cluster.", "Install the Gateway API, or remove `spec.networking`.";
        DNSPending => False, "The host names do not resolve yet.", "Wait, or check the controller that manages the DNS records of the gateway. Nodes are not affected.";
    }
}

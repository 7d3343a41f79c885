//! Conditions that summarize the reports of KMS plugins.

use super::reason::conditions;

conditions! {
    of "KMSHealth, operator.openshift.io";

    KMSPluginsDegraded: "Whether a KMS plugin is unhealthy." {
        PluginUnhealthy => True, "The plugin of the write key reports that it is unhealthy.", "Check the plugin on the nodes in the message, and the KMS.";
        PluginError => True, "The plugin of the write key does not respond.", "Check the plugin's container on the nodes in the message.";
        ReadPluginUnhealthy => True, "The plugin of a read key is unhealthy: data that is encrypted with an older key may be unreadable.", "Check the plugin on the nodes in the message, and the KMS.";
        PluginFlapping => True, "A plugin alternates between healthy and unhealthy.", "Check the connection from the nodes in the message to the KMS.";
        ReporterStale => Unknown, "A reporter stopped reporting.", "Check the reporter's container on the nodes in the message.";
        ReportMalformed => Unknown, "A report is malformed.", "Update the reporters and the aggregator to the same version.";
        ReporterMissing => Unknown, "A node has never reported.", "Check the reporter's container on the nodes in the message.";
        ReporterClockSkew => Unknown, "The timestamp of a report is in the future.", "Fix the clocks of the nodes in the message.";
        NotYetObserved => False, "Not all plugins have been checked yet.", "Wait.";
        AsExpected => False, "All plugins are healthy.", "Nothing.";
    }

    KMSPluginsAvailable: "Whether new data can be encrypted." {
        AsExpected => True, "The plugin of the write key works on at least one node.", "Nothing.";
        WritePluginDown => False, "The plugin of the write key works on no node.", "Check the KMS: new Secrets cannot be stored.";
    }

    KMSPluginsProgressing: "Whether nodes are moving to another key." {
        KeySetsDiffer => True, "Nodes have plugins for different sets of keys.", "Wait until the rollout of the API servers is complete.";
        RemoteKeysDiffer => True, "Plugins of the same key use different remote keys.", "Wait until all nodes have picked up the rotation.";
        AsExpected => False, "All nodes have the same keys.", "Nothing.";
    }

    KMSRemoteKeyConverged: "Whether all nodes encrypt with the same remote key." {
        Converged => True, "All nodes have used the same remote key for at least five minutes.", "Nothing.";
        Settling => False, "All nodes use the same remote key, but for less than five minutes.", "Wait.";
        Diverged => False, "Nodes use different remote keys.", "Wait until all nodes have picked up the rotation; the message lists the key of each node.";
        Incomplete => False, "Not all nodes have reported a remote key.", "See KMSPluginsDegraded.";
        ReportsStale => Unknown, "Reports are stale.", "See KMSPluginsDegraded.";
    }
}

//! Conditions that reports of KMS plugins are rolled up to.

use super::reason::conditions;

conditions! {
    of "KMSHealth, operator.openshift.io";

    KMSPluginsDegraded: "Whether a KMS plugin is sick." {
        PluginUnhealthy => True, "The plugin that encrypts says that it is sick.", "Look at the plugin on the nodes that the message names, and at the KMS.";
        PluginError => True, "The plugin that encrypts gives no answer.", "Look at the plugin's container on the nodes that the message names.";
        ReadPluginUnhealthy => True, "A plugin that only decrypts is sick: data of an older key may be unreadable.", "Look at the plugin on the nodes that the message names, and at the KMS.";
        PluginFlapping => True, "A plugin changes between well and sick.", "Look at the way from the nodes that the message names to the KMS.";
        ReporterStale => Unknown, "A reporter has stopped.", "Look at the reporter's container on the nodes that the message names.";
        ReportMalformed => Unknown, "A report cannot be read.", "Update the reporters and the aggregator to one version.";
        ReporterMissing => Unknown, "A node never reported.", "Look at the reporter's container on the nodes that the message names.";
        ReporterClockSkew => Unknown, "A report comes from the future.", "Correct the clock of the nodes that the message names.";
        NotYetObserved => False, "Not every plugin was looked at yet.", "Wait.";
        AsExpected => False, "Every plugin is well.", "Nothing.";
    }

    KMSPluginsAvailable: "Whether new data can be encrypted." {
        AsExpected => True, "A node's plugin can encrypt.", "Nothing.";
        WritePluginDown => False, "No node's plugin can encrypt.", "Look at the KMS: new Secrets cannot be stored.";
    }

    KMSPluginsProgressing: "Whether nodes are moving to another key." {
        KeySetsDiffer => True, "Nodes have plugins for different keys.", "Wait until the rollout of the API servers is done.";
        RemoteKeysDiffer => True, "Plugins of one key use different keys of the KMS.", "Wait until every node has noticed the rotation.";
        AsExpected => False, "All nodes are alike.", "Nothing.";
    }

    KMSRemoteKeyConverged: "Whether all nodes encrypt with one key of the KMS." {
        Converged => True, "They do, for long enough to rely on it.", "Nothing.";
        Settling => False, "They do, for less than five minutes.", "Wait.";
        Diverged => False, "They do not.", "Wait until every node has noticed the rotation; the message says which node uses which.";
        Incomplete => False, "Not every node has reported a key.", "See KMSPluginsDegraded.";
        ReportsStale => Unknown, "Reports are too old to judge by.", "See KMSPluginsDegraded.";
    }
}

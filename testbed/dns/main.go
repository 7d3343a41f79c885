// The name server of the test-bed: CoreDNS with the few plugins that pods of a
// test cluster need.
//
// Operands and chain nodes find each other by the names of Services and pods,
// so a cluster without DNS would test less than it claims. CoreDNS with all of
// its plugins pulls in the clients of four clouds; this list is what the
// test-bed's Corefile uses, and naming any other plugin there is an error at
// start, not a silent no-op.
//
// There is deliberately no forward plugin: a name from outside the cluster gets
// an error at once, where a forwarder would let a test reach the network, or
// hang on a machine that has none.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	coremain.Run()
}

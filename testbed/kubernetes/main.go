// The Kubernetes half of the test-bed: every program of a real cluster in one
// binary.
//
// Tests and the demo run against the real control plane, kubelet and etcd, not
// against imitations. One binary instead of seven, because the seven share
// nearly all of their code: linking them once saves most of the build time and
// close to a gigabyte of disk.
//
// The command is the base name of argv[0], so a symlink named kubectl is
// kubectl. Under any other name it is the first argument:
// `kubernetes kubectl get nodes`.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	// Metrics of the client and of the build; absent from /metrics without these.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// A command is run with os.Args[0] being its own name, and returns the exit
// code. Each builds its cobra command only when called: several of the
// constructors install the process's one signal handler, and a second
// installation panics.
type command struct {
	name string
	run  func() int
}

var commands = []command{
	{"kube-apiserver", func() int { return cli.Run(apiserver.NewAPIServerCommand()) }},
	{"kube-controller-manager", func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }},
	{"kube-scheduler", func() int { return cli.Run(scheduler.NewSchedulerCommand()) }},
	{"kubelet", runKubelet},
	{"kube-proxy", func() int { return cli.Run(proxy.NewProxyCommand()) }},
	{"kubectl", runKubectl},
	{"etcd", runEtcd},
}

func main() {
	run, args := choose(os.Args)
	if run == nil {
		names := make([]string, len(commands))
		for i, c := range commands {
			names[i] = c.name
		}
		fmt.Fprintf(os.Stderr, "kubernetes: no such command; call it as, or with a first argument of: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Args = args
	os.Exit(run())
}

// choose finds the command in argv and returns it with the arguments it is to
// see. The command's function is nil when argv names none.
func choose(argv []string) (func() int, []string) {
	// An execve with an empty argv is legal.
	for i := 0; i < len(argv) && i < 2; i++ {
		name := argv[i]
		if i == 0 {
			name = filepath.Base(name)
		}
		for _, c := range commands {
			if c.name == name {
				return c.run, argv[i:]
			}
		}
	}
	return nil, nil
}

// runKubelet hands over a plain context: the kubelet installs the signal
// handler itself when it starts, and one made here would be the second.
func runKubelet() int {
	return cli.Run(kubelet.NewKubeletCommand(context.Background()))
}

// runKubectl leaves the printing of errors to kubectl, which adds its own
// hints and exit codes; printing them here too would show each one twice.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return 0
}

// runEtcd returns only when etcd was stopped in good order; it exits the
// process itself on every failure.
func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

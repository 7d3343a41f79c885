// The certificate authority of the test-bed: the real cert-manager controllers,
// as far as self-signed and CA issuers need them.
//
// The operators ask cert-manager for serving certificates, and a test that
// wrote the Secret itself would not notice when they ask wrongly. The released
// controller cannot be had as a Go module, so this program puts the same
// controllers together from cert-manager's public packages. ACME, Vault, the
// webhook and leader election are left out: nothing here has a use for them.
//
// The CRDs must be in the cluster before this starts, or its informers fail and
// wait in growing steps. They are not embedded, since //go:embed cannot reach
// into another module: they are the files of deploy/crds in the folder that
// `go list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager` prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"golang.org/x/sync/errgroup"

	// Each of these adds its constructor to controller.Known or its issuer to
	// the issuer factory; one that is missing leaves certificates pending
	// without any error.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file to reach the test cluster with (required)")
	namespace := flag.String("cluster-resource-namespace", "cert-manager", "namespace of the Secrets that ClusterIssuers name")
	flag.Parse()
	// Without a file the client library would take the cluster that the
	// environment points at, which may well be somebody's real one.
	if *kubeconfig == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "cert-manager: usage: cert-manager --kubeconfig FILE [--cluster-resource-namespace NAME]")
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// The second signal kills at once, should a controller hang in its shutdown.
	context.AfterFunc(ctx, stop)

	logf.InitLogs()
	err := run(logf.NewContext(ctx, logf.Log), controller.ContextOptions{
		Kubeconfig:       *kubeconfig,
		KubernetesAPIQPS: 50, KubernetesAPIBurst: 100,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: *namespace},
		// The values of the released controller. Zero would turn the backoff
		// off: a certificate that cannot be issued would be tried in a loop.
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	logf.FlushLogs()
	// A controller that is told to stop before its caches are filled reports
	// that as a failure.
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "cert-manager: %v\n", err)
		os.Exit(1)
	}
}

// run starts every controller with one worker, and returns when all have ended:
// because ctx did, or because one of them failed.
func run(ctx context.Context, opts controller.ContextOptions) error {
	factory, err := controller.NewContextFactory(ctx, opts)
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}

	// All are constructed before the informers start, since an informer that is
	// first asked for afterwards would never run.
	controllers := map[string]controller.Interface{}
	for name, construct := range controller.Known() {
		if controllers[name], err = construct(factory); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.SharedInformerFactory.Start(ctx.Done())

	for name, c := range controllers {
		group.Go(func() error {
			err := c.Run(1, ctx)
			// One that ends by itself would leave the others running with a
			// step of the issuance missing.
			if err == nil && ctx.Err() == nil {
				err = errors.New("ended early")
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// The chain node of the test-bed: seid, with nothing of it changed.
//
// Configuration, genesis and governance are right when the chain itself says
// so: the tests start real validators on what the sidecar wrote.
//
// It is the one part that needs cgo, and three shared libraries of sei-chain's
// contract engine with it. The linker is told to look for them in
// $ORIGIN/../lib too; otherwise the program would find them only in the module
// cache of the machine that built it, which a pod's image does not have.
//
// The optional executor (giga_executor.enabled) cannot be used with this build:
// it opens its library by the path of a source file, which exists only where
// seid was compiled. It is off by default, and must stay so.
package main

import (
	"os"

	"github.com/sei-protocol/sei-chain/app"
	"github.com/sei-protocol/sei-chain/app/params"
	"github.com/sei-protocol/sei-chain/cmd/seid/cmd"
	server "github.com/sei-protocol/sei-chain/sei-cosmos/server/cmd"
)

func main() {
	// Before any command is built: some of them print addresses in their help,
	// and would seal the prefix of another chain.
	params.SetAddressPrefixes()
	root, _ := cmd.NewRootCmd()
	// The error has been printed by then.
	if server.Execute(root, app.DefaultNodeHome) != nil {
		os.Exit(1)
	}
}

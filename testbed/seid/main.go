// Package main is the chain node of the test-bed: seid, unchanged.
package main

import (
	"os"

	"github.com/sei-protocol/sei-chain/app"
	"github.com/sei-protocol/sei-chain/app/params"
	"github.com/sei-protocol/sei-chain/cmd/seid/cmd"
	svrcmd "github.com/sei-protocol/sei-chain/sei-cosmos/server/cmd"
)

func main() {
	params.SetAddressPrefixes()
	root, _ := cmd.NewRootCmd()
	if err := svrcmd.Execute(root, app.DefaultNodeHome); err != nil {
		os.Exit(1)
	}
}

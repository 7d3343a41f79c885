// The object store of the test-bed: MinIO, an S3 server on loopback.
//
// Snapshots and shadow results go to S3, and only a real server checks the
// signatures, multipart uploads and ranges that the sidecar sends.
//
// MinIO is licensed under the AGPL. It is a program of its own that tests start
// and talk to over HTTP; it is linked into nothing else, copied into no image,
// and never shipped.
//
//	minio server DIR --address 127.0.0.1:PORT
//
// User and password are MINIO_ROOT_USER and MINIO_ROOT_PASSWORD.
package main

import (
	"os"

	"github.com/minio/minio/cmd"
)

func main() {
	defaults := map[string]string{
		// The server asks its maker for a newer release at start otherwise: a
		// test must not depend on the network, nor tell anyone that it runs.
		"MINIO_UPDATE": "off",
		// The web console listens on a random port of every interface otherwise.
		"MINIO_BROWSER": "off",
		// The server takes local time for UTC in a few places.
		"TZ": "UTC",
	}
	for name, value := range defaults {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	cmd.Main(os.Args)
}

//go:build linux

package main

import (
	_ "embed"
	"runtime"
)

const goarch = runtime.GOARCH

// dnsManifest deploys the DNS of the cluster.
//
//go:embed dns.yaml
var dnsManifest string

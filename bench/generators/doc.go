// Package generators compares Kelson's generators with controller-gen, on real projects and on a
// small one:
//
//	make generators          compares the outputs for the API packages of real projects; takes most of its time for downloads
//	make bench-generators    compares the time of a run and of an edit; writes its part of docs/internals/benchmarks.md
package generators

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// peer is the compared version.
const peer = "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0"

// Peer builds controller-gen once, with the dependencies of its own module, and returns the path of
// the binary.
func Peer(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "kelson", "controller-gen-v0.23.0")
	bin := filepath.Join(dir, "controller-gen")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	cmd := exec.CommandContext(ctx, "go", "install", peer)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", peer, err, out)
	}
	return bin, nil
}

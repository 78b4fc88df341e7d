//go:build linux

package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// mirrors is the folder in which containerd looks for the mirrors of registries.
const mirrors = "/etc/containerd/certs.d"

// serveImages serves the images as a mirror of registry.k8s.io to both nodes, for specs whose pods
// always pull their images.
func (o options) serveImages() (closeRegistry func() error, err error) {
	const upstream, mirror = "registry.k8s.io", nearAddress + ":" + registryPort
	listener, err := net.Listen("tcp", mirror)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	go func() { _ = server.Serve(listener) }()
	defer func() {
		if err != nil {
			server.Close()
		}
	}()
	archive := func() (io.ReadCloser, error) { return os.Open(o.archive()) }
	manifest, err := tarball.LoadManifest(archive)
	if err != nil {
		return nil, err
	}
	for _, m := range manifest {
		tag, err := name.NewTag(m.RepoTags[0])
		if err != nil {
			return nil, err
		}
		if tag.RegistryStr() != upstream {
			continue
		}
		image, err := tarball.Image(archive, &tag)
		if err != nil {
			return nil, err
		}
		at, err := name.NewTag(mirror+"/"+tag.RepositoryStr()+":"+tag.TagStr(), name.Insecure)
		if err != nil {
			return nil, err
		}
		if err := remote.Write(at, image); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(mirrors, upstream)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	hosts := fmt.Sprintf("[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", "http://"+mirror)
	return server.Close, os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o644)
}

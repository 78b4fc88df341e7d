// Package dns is the add-on that gives a cluster its DNS. It runs CoreDNS, as the program
// kelson-dns in an image that needs no registry.
//
//	addon := dns.Addon{Address: address, Domain: "cluster.local"}
//	addon.Image, err = dns.WriteImage(ctx, program, archive) // a node imports the archive
//	err = addon.Apply(ctx, client)
package dns

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"kelson.dev/operator/client"
	"kelson.dev/toolchain/image"
)

// Program is the name of the program, which the module cmd/kelson-dns builds.
const Program = "kelson-dns"

// NodeLabel marks, with the value "true", the nodes whose runtime has the image.
const NodeLabel = "node.kelson.dev/dns"

// index is the position of the DNS's address in the range of cluster IPs, as in kubeadm.
const index = 10

// Address returns the cluster IP of the DNS in a range of cluster IPs, or in the first of several
// that are separated by commas.
func Address(serviceRange string) (netip.Addr, error) {
	first, _, _ := strings.Cut(serviceRange, ",")
	r, err := netip.ParsePrefix(strings.TrimSpace(first))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("range of cluster IPs: %w", err)
	}
	at := r.Masked().Addr()
	for range index {
		at = at.Next()
	}
	if !r.Contains(at) {
		return netip.Addr{}, fmt.Errorf("range of cluster IPs: %s has no address at position %d for the DNS", r, index)
	}
	return at, nil
}

// WriteImage packs a kelson-dns program for this machine and writes the image to an archive. It
// returns the image's name, which contains a hash of the content. It replaces the archive
// atomically.
func WriteImage(ctx context.Context, program, archive string) (name string, err error) {
	built, err := image.Build(ctx, image.Config{
		Binary: program, Platforms: []image.Platform{{OS: "linux", Architecture: runtime.GOARCH}},
		Labels: map[string]string{"org.opencontainers.image.title": Program},
	})
	if err != nil {
		return "", err
	}
	digest, err := built.Digest()
	if err != nil {
		return "", err
	}
	const shown = 12
	name = "kelson.local/" + Program + ":" + digest.Hex[:shown]
	if err := os.MkdirAll(filepath.Dir(archive), 0o700); err != nil {
		return "", err
	}
	temporary := archive + ".new"
	if err := built.Archive(temporary, name); err != nil {
		return "", errors.Join(err, os.Remove(temporary))
	}
	return name, os.Rename(temporary, archive)
}

// Addon is the DNS of a cluster.
type Addon struct {
	// Address is its cluster IP, and Domain the domain of the cluster.
	Address netip.Addr
	Domain  string
	// Image is the name of its image.
	Image string
}

//go:embed addon.yaml
var manifest string

var manifestTemplate = template.Must(template.New("addon.yaml").Parse(manifest))

// Objects returns the objects of the add-on.
func (a Addon) Objects() ([]*unstructured.Unstructured, error) {
	var b bytes.Buffer
	if err := manifestTemplate.Execute(&b, a); err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(&b, b.Len()); ; {
		obj := &unstructured.Unstructured{}
		if err := d.Decode(obj); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, obj)
	}
}

// Apply creates or updates the objects. It does not change a ConfigMap that exists, because its
// users edit the Corefile.
func (a Addon) Apply(ctx context.Context, cl client.Client) error {
	objects, err := a.Objects()
	if err != nil {
		return err
	}
	for _, obj := range objects {
		what := fmt.Sprintf("%s %s", obj.GetKind(), obj.GetName())
		if obj.GetKind() == "ConfigMap" {
			if err := cl.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create %s: %w", what, err)
			}
			continue
		}
		if err := cl.Apply(ctx, obj); err != nil {
			return fmt.Errorf("apply %s: %w", what, err)
		}
	}
	return nil
}

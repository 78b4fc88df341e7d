package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/image"
)

var both = []image.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// program writes a module with a program to a folder.
func program(t *testing.T, dir string) string {
	t.Helper()
	for file, text := range map[string]string{
		"go.mod":  "module example.com/operator\n\ngo 1.26\n",
		"main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"running\") }\n",
	} {
		err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		require.NoError(t, err)
	}
	return dir
}

func build(t *testing.T, cfg image.Config) *image.Image {
	t.Helper()
	t.Setenv("GOWORK", "off")
	built, err := image.Build(t.Context(), cfg)
	require.NoError(t, err)
	return built
}

// Two builds in different folders are equal, bit for bit.
func TestReproducible(t *testing.T) {
	require.Long(t, "compiles for two platforms")
	var sums [2][sha256.Size]byte
	var bills [2][]image.Bill
	for i := range sums {
		dir := t.TempDir()
		built := build(t, image.Config{Main: program(t, filepath.Join(dir, strings.Repeat("x", i+1))), Platforms: both,
			Labels: map[string]string{"team": "shop"}})
		file := filepath.Join(dir, "image.tar")
		require.NoError(t, built.Archive(file, "registry.example/shop/operator:v1"))
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		sums[i], bills[i] = sha256.Sum256(content), built.Bills
	}
	assert.Equalf(t, sums[0], sums[1], "two builds differ")
	for i := range both {
		if !bytes.Equal(bills[0][i].JSON, bills[1][i].JSON) {
			t.Errorf("the bills of %s differ", both[i])
		}
	}
}

// The image meets the requirements of a scaffolded Deployment, and contains the files that Go
// programs expect.
func TestContents(t *testing.T) {
	require.Long(t, "compiles a program")
	created := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	built := build(t, image.Config{Main: program(t, t.TempDir()), Platforms: both[:1], Created: created})
	manifest, err := built.Index.IndexManifest()
	require.NoError(t, err)
	img, err := built.Index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	config, err := img.ConfigFile()
	require.NoError(t, err)
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/manager"}) ||
		config.Architecture != "amd64" || !config.Created.Time.Equal(created) {
		t.Errorf("configuration: %+v", config)
	}
	layers, err := img.Layers()
	require.NoError(t, err)
	modes := map[string]int64{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		require.NoError(t, err)
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			modes[h.Name] = h.Mode
			if h.Name == "etc/ssl/certs/ca-certificates.crt" {
				text, err := io.ReadAll(r)
				if n := bytes.Count(text, []byte("BEGIN CERTIFICATE")); err != nil || n < 100 {
					t.Errorf("%d certificates (%v)", n, err)
				}
			}
		}
	}
	for name, mode := range map[string]int64{"manager": 0o755, "tmp/": 0o1777, "etc/passwd": 0o644,
		"usr/share/zoneinfo.zip": 0o644, "etc/": 0o755} {
		assert.Equalf(t, modes[name], mode, "%s has mode", name)
	}
	var bill struct {
		Version  string `json:"spdxVersion"`
		Packages []struct{ Name, VersionInfo string }
	}
	if err := json.Unmarshal(built.Bills[0].JSON, &bill); err != nil || bill.Version != "SPDX-2.3" ||
		bill.Packages[0].Name != "example.com/operator" || bill.Packages[1].Name != "stdlib" {
		t.Errorf("bill: %v %+v", err, bill)
	}
}

// An archive for one platform has the image itself, with the name that containerd reads; one for
// several has an index.
func TestArchive(t *testing.T) {
	require.Long(t, "compiles for two platforms")
	dir := program(t, t.TempDir())
	for n, mediaType := range map[int]string{1: "application/vnd.oci.image.manifest.v1+json",
		2: "application/vnd.oci.image.index.v1+json"} {
		file := filepath.Join(t.TempDir(), "image.tar")
		err := build(t, image.Config{Main: dir, Platforms: both[:n]}).Archive(file, "shop/operator:v1")
		require.NoError(t, err)
		at := t.TempDir()
		unpack(t, file, at)
		index, err := layout.ImageIndexFromPath(at)
		require.NoError(t, err)
		manifest, err := index.IndexManifest()
		require.NoError(t, err)
		d := manifest.Manifests[0]
		if len(manifest.Manifests) != 1 || string(d.MediaType) != mediaType ||
			d.Annotations["io.containerd.image.name"] != "docker.io/shop/operator:v1" {
			t.Errorf("%d platforms: %+v", n, manifest.Manifests)
		}
	}
}

func unpack(t *testing.T, file, to string) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		name := filepath.Join(to, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o755)
		} else {
			var content []byte
			content, err = io.ReadAll(r)
			err = errors.Join(err, os.WriteFile(name, content, 0o644))
		}
		require.NoError(t, err)
	}
}

// A registry has the image, and the bills refer to the images of their platforms.
func TestPush(t *testing.T) {
	require.Long(t, "compiles for two platforms")
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true),
		registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/shop/operator:v1"
	built := build(t, image.Config{Main: program(t, t.TempDir()), Platforms: both})
	digest, err := built.Push(t.Context(), ref)
	require.NoError(t, err)
	tag, err := name.NewTag(ref)
	require.NoError(t, err)
	index, err := remote.Index(tag)
	require.NoError(t, err)
	if got, err := index.Digest(); err != nil || got != digest {
		t.Errorf("the registry has %v, pushed %v (%v)", got, digest, err)
	}
	for i, p := range both {
		img, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: p.OS, Architecture: p.Architecture}))
		require.NoError(t, err)
		digest, err := img.Digest()
		require.NoError(t, err)
		referrers, err := remote.Referrers(tag.Context().Digest(digest.String()))
		require.NoError(t, err)
		manifest, err := referrers.IndexManifest()
		require.NoError(t, err)
		if len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != image.BillType {
			t.Fatalf("referrers of %s: %+v", p, manifest.Manifests)
		}
		attached, err := remote.Image(tag.Context().Digest(manifest.Manifests[0].Digest.String()))
		require.NoError(t, err)
		layers, err := attached.Layers()
		require.NoError(t, err)
		content, err := layers[0].Uncompressed()
		require.NoError(t, err)
		if bill, err := io.ReadAll(content); err != nil || !bytes.Equal(bill, built.Bills[i].JSON) {
			t.Errorf("the bill of %s is not the one that was pushed (%v)", p, err)
		}
	}
}

func TestWrongInput(t *testing.T) {
	for text, want := range map[string]string{"linux": "want linux/ARCHITECTURE",
		"windows/amd64": "images are built for linux only", "linux/": "want linux/ARCHITECTURE"} {
		_, err := image.ParsePlatform(text)
		assert.ErrorContainsf(t, err, want, "platform %q", text)
	}
	for text, want := range map[string]string{"": "needs a name", "Shop:v1": "invalid name of an image",
		"a/b:c:d": "invalid name"} {
		_, err := image.Reference(text)
		assert.ErrorContainsf(t, err, want, "reference %q", text)
	}
	if _, err := image.Build(t.Context(), image.Config{Main: t.TempDir()}); err == nil {
		t.Error("built without a platform")
	}
	_, err := image.Build(t.Context(), image.Config{Main: t.TempDir(), Platforms: both[:1]})
	assert.ErrorContainsf(t, err, "compile for linux/amd64", "a folder without a program")
	_, err = image.Build(t.Context(), image.Config{Main: program(t, t.TempDir()),
		Platforms: []image.Platform{both[0], both[0]}})
	assert.ErrorContainsf(t, err, "named twice", "the same platform twice")
}

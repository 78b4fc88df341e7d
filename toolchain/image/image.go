// Package image builds container images of Go programs without a container engine.
//
//	built, err := image.Build(ctx, image.Config{Main: "./cmd", Platforms: []image.Platform{{"linux", "amd64"}}})
//	err = built.Archive("operator.tar", "registry.example/shop/operator:v1") // for ctr images import
//	err = built.Push(ctx, "registry.example/shop/operator:v1")
//
// An image has two layers: one with the certificates of public authorities, time zones, a user and
// /tmp; and one with the program. If files are copied, a layer between these has them. Nothing is
// downloaded, and no base image is needed, because Go programs need no libc. Equal sources, with
// the same Go release, give equal images, bit for bit.
package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"kelson.dev/toolchain/compiler"
)

// Platform is an operating system and an architecture, as Go names them.
type Platform struct{ OS, Architecture string }

// String returns OS/ARCHITECTURE.
func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// ParsePlatform reads linux/ARCHITECTURE. Images for other operating systems need a base image.
func ParsePlatform(text string) (Platform, error) {
	system, architecture, ok := strings.Cut(text, "/")
	if !ok || architecture == "" || strings.Contains(architecture, "/") {
		return Platform{}, fmt.Errorf("invalid platform %q: want linux/ARCHITECTURE, such as linux/arm64", text)
	}
	if system != "linux" {
		return Platform{}, fmt.Errorf("platform %q: images are built for linux only", text)
	}
	return Platform{system, architecture}, nil
}

// Config describes the image to build.
type Config struct {
	// Main is the folder of the main package, and Tags are its build tags, separated by commas.
	Main, Tags string
	// Binary is the file of a compiled program, instead of Main. It must be compiled for the only
	// platform. Such an image has no time zones, because these come from a Go release, which Build
	// does not look for in this case.
	Binary string
	// Program is the path of the program in the image, and its entry point. The default is
	// [Program].
	Program string
	// Platforms are those of the image. Required.
	Platforms []Platform
	// Files are copied into the image, in a layer of their own.
	Files []File
	// Created is the time in the image; zero means the beginning of 1970.
	Created time.Time
	// Labels are added to the image.
	Labels map[string]string
}

const (
	// Program is the default of Config.Program.
	Program = "/manager"
	// User is the numeric id of the user and group, which has no rights. It is numeric so that a
	// kubelet can verify runAsNonRoot.
	User = 65532
	// certificates is the path at which Go programs look for certificates on Linux.
	certificates = "etc/ssl/certs/ca-certificates.crt"
	// timeZones is the path of the time zones. The environment variable ZONEINFO, which package
	// time reads, names it.
	timeZones = "usr/share/zoneinfo.zip"
)

// Image is an image for one or more platforms.
type Image struct {
	// Index has a manifest for each platform.
	Index v1.ImageIndex
	// Bills are the software bills of materials, in the order of Config.Platforms.
	Bills []Bill
}

// Build compiles the program for each platform, without cgo, and packs it.
func Build(ctx context.Context, cfg Config) (*Image, error) {
	if len(cfg.Platforms) == 0 {
		return nil, errors.New("build image: no platform")
	}
	if cfg.Binary != "" && (cfg.Main != "" || cfg.Tags != "" || len(cfg.Platforms) > 1) {
		return nil, errors.New("build image: a compiled program has one platform, and neither a package nor tags")
	}
	cfg.Program = "/" + strings.TrimPrefix(cmp.Or(cfg.Program, Program), "/")
	created := cfg.Created
	if created.IsZero() {
		created = time.Unix(0, 0)
	}
	created = created.UTC().Truncate(time.Second)
	temp, err := os.MkdirTemp("", "kelson-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	base, err := baseLayer(ctx, created, cfg.Binary == "")
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{base}
	if len(cfg.Files) > 0 {
		files, err := filesLayer(created, cfg.Program, cfg.Files)
		if err != nil {
			return nil, fmt.Errorf("build image: %w", err)
		}
		layers = append(layers, files)
	}
	built := &Image{Index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	seen := map[Platform]bool{}
	for i, p := range cfg.Platforms {
		if seen[p] {
			return nil, fmt.Errorf("build image: platform %s is named twice", p)
		}
		seen[p] = true
		binary := cfg.Binary
		if binary == "" {
			binary = filepath.Join(temp, fmt.Sprint("program-", i))
			if err := compile(ctx, cfg, p, binary); err != nil {
				return nil, err
			}
		}
		img, err := pack(cfg, p, layers, binary, created)
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", p, err)
		}
		bill, err := BillOf(binary, p, created, nil)
		if err != nil {
			return nil, err
		}
		built.Bills = append(built.Bills, bill)
		built.Index = mutate.AppendManifests(built.Index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Architecture}},
		})
	}
	return built, nil
}

// Digest returns the digest of the image for all platforms.
func (i *Image) Digest() (v1.Hash, error) { return i.Index.Digest() }

// compile builds the program. The result does not contain paths of this machine or the time.
func compile(ctx context.Context, cfg Config, p Platform, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-tags="+cfg.Tags,
		"-o="+binary, ".")
	cmd.Dir = cfg.Main
	cmd.Env = append(compiler.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile for %s: %w\n%s", p, err, bytes.TrimSpace(output))
	}
	return nil
}

// pack returns the image of a compiled program, whose layer follows the others.
func pack(cfg Config, p Platform, layers []v1.Layer, binary string, created time.Time) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	layer, err := layerOf(created, []entry{{name: strings.TrimPrefix(cfg.Program, "/"), mode: 0o755, content: program}})
	if err != nil {
		return nil, err
	}
	layers = append(slices.Clip(layers), layer)
	contents := []string{"certificates, time zones, user", "files", cfg.Program}
	if len(layers) == 2 {
		contents = slices.Delete(contents, 1, 2)
	}
	var added []mutate.Addendum
	for i, l := range layers {
		added = append(added, mutate.Addendum{
			Layer: l, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "kelson image: " + contents[i]},
		})
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), added...)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = p.OS, p.Architecture, v1.Time{Time: created}
	file.Config = v1.Config{
		Entrypoint: []string{cfg.Program}, User: fmt.Sprintf("%d:%d", User, User), WorkingDir: "/", Labels: cfg.Labels,
		Env: []string{"PATH=/", "SSL_CERT_FILE=/" + certificates},
	}
	if cfg.Binary == "" {
		file.Config.Env = append(file.Config.Env, "ZONEINFO=/"+timeZones)
	}
	return mutate.ConfigFile(img, file)
}

// baseLayer returns the layer with the files that programs expect of a system, with or without time
// zones.
func baseLayer(ctx context.Context, created time.Time, zones bool) (v1.Layer, error) {
	entries := []entry{
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", User)},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil,
			"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/home/nonroot:/sbin/nologin\n", User, User)},
		{name: certificates, mode: 0o644, content: authorities()},
		{name: "home/nonroot", mode: 0o700 | os.ModeDir, owner: User},
		{name: "tmp", mode: 0o777 | os.ModeDir | os.ModeSticky},
	}
	if zones {
		output, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return nil, fmt.Errorf("find the Go release: %w", err)
		}
		content, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(output)), "lib", "time", "zoneinfo.zip"))
		if err != nil {
			return nil, fmt.Errorf("read time zones: %w", err)
		}
		entries = append(entries, entry{name: timeZones, mode: 0o644, content: content})
	}
	return layerOf(created, entries)
}

// entry is a file or folder of a layer.
type entry struct {
	name    string
	mode    os.FileMode
	owner   int // of user and group
	content []byte
}

// layerOf packs files, with the folders that they are in.
func layerOf(created time.Time, entries []entry) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	known := map[string]bool{}
	add := func(e entry) error {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), Uid: e.owner, Gid: e.owner,
			Size: int64(len(e.content)), ModTime: created, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if e.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
		}
		if e.mode&os.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		known[e.name] = true
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(e.content)
		return err
	}
	for _, e := range entries {
		parts := strings.Split(e.name, "/")
		for i := 1; i < len(parts); i++ {
			if folder := strings.Join(parts[:i], "/"); !known[folder] {
				if err := add(entry{name: folder, mode: 0o755 | os.ModeDir}); err != nil {
					return nil, err
				}
			}
		}
		if err := add(e); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	content := slices.Clip(b.Bytes())
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
}

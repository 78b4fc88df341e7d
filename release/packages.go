package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"

	"kelson.dev/toolchain/image"
)

// packages writes the Debian packages for linux.
func (r *release) packages(context.Context) error {
	for _, p := range r.built {
		if p.platform.OS != "linux" {
			continue
		}
		if err := r.debian(p); err != nil {
			return fmt.Errorf("Debian package for %s: %w", p.platform, err)
		}
	}
	return nil
}

func (r *release) debian(p *program) (err error) {
	dir := filepath.Join(r.scratch, "deb-"+p.name())
	var contents files.Contents
	for _, f := range append(append([]file{{name: p.binary(), mode: 0o755, from: p.path}}, r.pages...),
		p.licenses.files()...) {
		to := installed(f.name)
		if to == "" {
			continue
		}
		from := f.from
		if from == "" {
			from = filepath.Join(dir, filepath.FromSlash(f.name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o755),
				os.WriteFile(from, f.content, 0o644)); err != nil {
				return err
			}
		}
		if strings.HasPrefix(to, "/usr/share/man/") {
			packed := filepath.Join(dir, filepath.Base(to))
			if err := errors.Join(os.MkdirAll(dir, 0o755), compress(from, packed)); err != nil {
				return err
			}
			from = packed
		}
		contents = append(contents, &files.Content{Source: from, Destination: to,
			FileInfo: &files.ContentFileInfo{Mode: f.mode, Owner: "root", Group: "root", MTime: r.src.at}})
	}
	for _, name := range []string{"kubectl-kelson", "kubectl_complete-kelson"} {
		contents = append(contents, &files.Content{Type: files.TypeSymlink, Source: "kelson",
			Destination: "/usr/bin/" + name, FileInfo: &files.ContentFileInfo{MTime: r.src.at}})
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "kelson", Arch: p.platform.Architecture, Platform: p.platform.OS, Version: r.src.version,
		Section: "devel", Priority: "optional",
		Maintainer: "Kelson <https://kelson.dev>", Homepage: "https://kelson.dev", License: "Apache-2.0",
		MTime: r.src.at, DisableGlobbing: true,
		Description:  "operator workbench for Kubernetes\nA control plane with Kubernetes' API, generators, a laboratory and a console,\nin one program.",
		Overridables: nfpm.Overridables{Contents: contents},
	})
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.out, deb.Default.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(deb.Default.Package(info, out), out.Close())
}

// installed returns where a Debian package has a file of the archives, or "".
func installed(name string) string {
	switch {
	case name == "kelson":
		return "/usr/bin/kelson"
	case name == "LICENSE":
		return "/usr/share/doc/kelson/copyright"
	case name == "completions/kelson.bash":
		return "/usr/share/bash-completion/completions/kelson"
	case name == "completions/_kelson":
		return "/usr/share/zsh/vendor-completions/_kelson"
	case name == "completions/kelson.fish":
		return "/usr/share/fish/vendor_completions.d/kelson.fish"
	case strings.HasPrefix(name, "man/"):
		return "/usr/share/" + name + ".gz"
	case strings.HasPrefix(name, "licenses/"):
		return "/usr/share/doc/kelson/" + name
	}
	return ""
}

// writeImage writes an archive of the image with kelson for all linux platforms.
func (r *release) writeImage(ctx context.Context) error {
	all := &image.Image{Index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	for _, p := range r.built {
		if p.platform.OS != "linux" {
			continue
		}
		one, err := image.Build(ctx, image.Config{
			Binary: p.path, Program: "/kelson", Platforms: []image.Platform{p.platform}, Created: r.src.at,
			Labels: map[string]string{"org.opencontainers.image.version": r.src.version,
				"org.opencontainers.image.revision": r.src.commit, "org.opencontainers.image.licenses": "Apache-2.0"},
		})
		if err != nil {
			return err
		}
		manifest, err := one.Index.IndexManifest()
		if err != nil {
			return err
		}
		img, err := one.Index.Image(manifest.Manifests[0].Digest)
		if err != nil {
			return err
		}
		all.Index = mutate.AppendManifests(all.Index,
			mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: manifest.Manifests[0].Platform}})
		all.Bills = append(all.Bills, one.Bills...)
	}
	if len(all.Bills) == 0 {
		return nil // not for linux
	}
	// A tag of an image has no +.
	return all.Archive(filepath.Join(r.out, "kelson-image.tar"),
		"kelson.dev/kelson:"+strings.ReplaceAll(r.src.version, "+", "_"))
}

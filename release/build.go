package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"kelson.dev/toolchain/image"
)

// program is kelson for one platform.
type program struct {
	platform image.Platform
	path     string
	licenses *licenses
}

// binary is the name of kelson on the platform.
func (p *program) binary() string {
	if p.platform.OS == "windows" {
		return "kelson.exe"
	}
	return "kelson"
}

// name is the first part of the names of the platform's files.
func (p *program) name() string {
	return fmt.Sprintf("kelson-%s-%s", p.platform.OS, p.platform.Architecture)
}

// versionVariable is the variable that the linker sets to the version.
const versionVariable = "kelson.dev/cmd/kelson/internal/release.version"

// buildPrograms compiles kelson for all platforms and finds the licenses of the linked modules.
func (r *release) buildPrograms(ctx context.Context) error {
	names, err := newNamer()
	if err != nil {
		return err
	}
	for _, platform := range r.platforms {
		p := &program{platform: platform}
		if p.licenses, err = findLicenses(ctx, r.src, platform, names); err != nil {
			return err
		}
		if p.path, err = r.compile(ctx, platform); err != nil {
			return err
		}
		if platform == host {
			r.kelson = p.path
		}
		r.built = append(r.built, p)
	}
	if r.kelson == "" {
		r.kelson, err = r.compile(ctx, host) // only to generate pages
	}
	return err
}

// compile builds kelson for a platform, with the profile and the small program that kelson envtest
// writes. Paths of this machine and the time are not part of it.
func (r *release) compile(ctx context.Context, p image.Platform) (string, error) {
	start := time.Now()
	const dropin = "cmd/kelson/internal/dropin"
	env := []string{"GOOS=" + p.OS, "GOARCH=" + p.Architecture}
	folder := fmt.Sprintf("%s-%s", p.OS, p.Architecture)
	small := filepath.Join(r.scratch, folder, "program")
	if _, err := r.src.goCommand(ctx, "", env, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=",
		"-o="+small, "./"+dropin+"/program"); err != nil {
		return "", err
	}
	programs := filepath.Join(r.src.dir, dropin, "programs")
	others, err := filepath.Glob(filepath.Join(programs, "program-*"))
	if err != nil {
		return "", err
	}
	for _, other := range others {
		if err := os.Remove(other); err != nil {
			return "", err
		}
	}
	if err := compress(small, filepath.Join(programs, "program-"+folder+".gz")); err != nil {
		return "", err
	}
	kelson := filepath.Join(r.scratch, folder, "kelson")
	profile, err := filepath.Abs(filepath.Join(r.src.dir, "cmd/kelson/release.pgo"))
	if err != nil {
		return "", err
	}
	flags := fmt.Sprintf("-ldflags=%s -buildid= -X %s=%s", r.ldflags, versionVariable, r.src.version)
	if _, err := r.src.goCommand(ctx, "", env, "build", "-trimpath", "-buildvcs=false", "-pgo="+profile, flags,
		"-o="+kelson, "./cmd/kelson"); err != nil {
		return "", err
	}
	info, err := os.Stat(kelson)
	if err != nil {
		return "", err
	}
	r.step("compiled for %s in %s: %d MB", p, time.Since(start).Round(time.Second), info.Size()>>20)
	return kelson, nil
}

// compress writes a file as gzip -9 -n does.
func compress(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return errors.Join(err, w.Close())
}

// pack writes the archives and the bills of materials of all platforms.
func (r *release) pack(context.Context) error {
	for _, p := range r.built {
		files := []file{{name: p.binary(), mode: 0o755, from: p.path}}
		files = append(files, r.pages...)
		files = append(files, p.licenses.files()...)
		var err error
		if name := filepath.Join(r.out, p.name()); p.platform.OS == "windows" {
			err = writeZip(name+".zip", r.src.at, files)
		} else {
			err = writeTarball(name+".tar.gz", r.src.at, files)
		}
		if err != nil {
			return fmt.Errorf("pack %s: %w", p.platform, err)
		}
		bill, err := image.BillOf(p.path, p.platform, r.src.at, p.licenses.facts(r.src.version))
		if err != nil {
			return fmt.Errorf("bill of materials for %s: %w", p.platform, err)
		}
		if err := os.WriteFile(filepath.Join(r.out, p.name()+".spdx.json"), bill.JSON, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// archives returns the names of the archives.
func (r *release) archives() (names []string) {
	for _, p := range r.built {
		suffix := ".tar.gz"
		if p.platform.OS == "windows" {
			suffix = ".zip"
		}
		names = append(names, path.Join(r.out, p.name()+suffix))
	}
	return names
}

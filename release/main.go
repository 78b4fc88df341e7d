// Command release builds a release of Kelson: make dist. It writes to one folder, for each
// platform:
//
//	kelson-OS-ARCH.tar.gz, .zip   the binary, completions, manual pages, licenses of what is linked
//	kelson-OS-ARCH.spdx.json      the bill of materials
//	kelson_VERSION_ARCH.deb       a Debian package, for linux
//
// and for all together:
//
//	kelson-image.tar   an OCI archive with the image for all linux platforms
//	kelson.yaml        the manifest of kubectl kelson for Krew
//	kelson.rb          a Homebrew formula
//	modules/           the Go modules, as a module proxy serves them
//	go-import.html     the page that tells the go command where the modules are
//	SHA256SUMS         the checksums of all other files
//
// The source is the newest commit, not the work tree. Equal commits, built by the same Go release
// for the same platforms, give equal files, bit for bit.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"kelson.dev/toolchain/image"
)

// config describes the files to build.
type config struct {
	source  string // a git repository
	out     string // folder, which is removed first
	ldflags string
	url     string // URL of the folder that will have the files of this version
	modules string // URL of the folder that will have the modules of all versions
	// platforms to build for, in order
	platforms []image.Platform
	// version is that of the release; "" means the commit's tag.
	version string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var cfg config
	var platforms string
	flag.StringVar(&cfg.source, "source", "..", "repository with Kelson's source")
	flag.StringVar(&cfg.out, "out", "../bin/dist", "folder to write, which is removed first")
	flag.StringVar(&cfg.ldflags, "ldflags", "", "flags of the linker, apart from the version")
	flag.StringVar(&cfg.url, "url", "https://kelson.dev/releases", "address of the folder that will have a folder with the files for each version")
	flag.StringVar(&cfg.modules, "modules-url", "https://kelson.dev/modules", "address of the folder that will have the modules")
	flag.StringVar(&cfg.version, "version", "", "semantic version (default: the tag of the commit, or a pseudo-version)")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "platforms to build for")
	flag.Parse()
	var err error
	if cfg.platforms, err = parsePlatforms(platforms); err == nil {
		err = build(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// parsePlatforms reads platforms that are separated by commas or spaces.
func parsePlatforms(text string) (platforms []image.Platform, err error) {
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		system, architecture, ok := strings.Cut(field, "/")
		if !ok || system == "" || architecture == "" || strings.Contains(architecture, "/") {
			return nil, fmt.Errorf("platform %q: want OS/ARCHITECTURE, such as linux/arm64", field)
		}
		p := image.Platform{OS: system, Architecture: architecture}
		if slices.Contains(platforms, p) {
			return nil, fmt.Errorf("platform %s is named twice", p)
		}
		platforms = append(platforms, p)
	}
	if len(platforms) == 0 {
		return nil, fmt.Errorf("no platforms")
	}
	return platforms, nil
}

// release is a release in progress.
type release struct {
	config
	src     *source
	out     string // absolute
	scratch string // temporary files
	// kelson is a binary that runs on this machine, and pages are the files that it generates for
	// all archives, by their names there.
	kelson string
	pages  []file
	// built are the platforms' programs, in the order of config.platforms.
	built []*program
}

// build builds the release.
func build(ctx context.Context, cfg config) error {
	out, err := filepath.Abs(cfg.out)
	if err != nil {
		return err
	}
	if err := emptied(out); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "kelson-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	src, err := export(ctx, cfg.source, filepath.Join(scratch, "source"), cfg.version)
	if err != nil {
		return err
	}
	r := &release{config: cfg, src: src, out: out, scratch: scratch}
	r.step("version %s of %s, commit %.12s", src.version, src.at.Format(time.DateOnly), src.commit)
	if src.uncommitted > 0 {
		r.step("%d uncommitted files are not part of the release", src.uncommitted)
	}
	steps := []func(context.Context) error{r.writeModules, r.buildPrograms, r.generatePages, r.pack, r.packages, r.writeImage, r.writeKrew, r.writeFormula}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return writeChecksums(out)
}

// emptied creates an empty folder. It removes only folders of an earlier release.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, "modules", "kelson.dev")); err != nil {
			return fmt.Errorf("folder %s has files that are not of a release: remove it first", dir)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

// step prints progress.
func (r *release) step(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
}

// host is the platform of this machine.
var host = image.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}

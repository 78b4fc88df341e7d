package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"

	"kelson.dev/toolchain/image"
)

// licenses are the licenses of the modules that are linked into a program.
type licenses struct {
	modules []licensed
	// own are the paths of this repository's modules; the archive has their license.
	own []string
}

// licensed is a module, or Go's standard library, with the license files that apply to its linked
// packages.
type licensed struct {
	path, version string
	texts         []file
	// names are the SPDX identifiers of the licenses, sorted.
	names []string
}

// standardLibrary is the name of Go's standard library in bills of materials.
const standardLibrary = "stdlib"

// accepted are the licenses whose terms a release meets by containing their texts. Packages under
// the MPL may be linked if they are not changed.
var accepted = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0",
	"Unlicense", "Zlib"}

// licenseFile matches the names of files with a license or a notice.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([.-].*)?$`)

// notLinked are suffixes of files that licenseFile matches but that are not licenses of code: Go
// files, and the licenses of documentation.
var notLinked = []string{".go", ".docs"}

// namer names licenses by their texts.
type namer struct {
	library *classifier.Classifier
	known   map[[sha256.Size]byte][]string
}

func newNamer() (*namer, error) {
	library, err := assets.DefaultClassifier()
	return &namer{library, map[[sha256.Size]byte][]string{}}, err
}

// names returns the licenses in a text, sorted.
func (c *namer) names(text []byte) []string {
	sum := sha256.Sum256(text)
	names, ok := c.known[sum]
	if !ok {
		for _, match := range c.library.Match(text).Matches {
			if match.MatchType == "License" && !slices.Contains(names, match.Name) {
				names = append(names, match.Name)
			}
		}
		slices.Sort(names)
		c.known[sum] = names
	}
	return names
}

// findLicenses reads the license files of all packages that are linked into kelson for a platform:
// those of each package's folder and of its parents, up to the module's. It fails if a module has
// no license, or one that is not accepted.
func findLicenses(ctx context.Context, src *source, p image.Platform, c *namer) (*licenses, error) {
	env := []string{"GOOS=" + p.OS, "GOARCH=" + p.Architecture}
	output, err := src.goCommand(ctx, "", env, "list", "-deps", "-json=Dir,Standard,Module", "./cmd/kelson",
		"./cmd/kelson/internal/dropin/program")
	if err != nil {
		return nil, err
	}
	goroot, err := src.goCommand(ctx, "", nil, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(string(goroot))
	found := map[string]*licensed{}
	seen := map[string]bool{}
	own := map[string]bool{}
	standard := &licensed{path: standardLibrary, version: strings.TrimPrefix(lines[1], "go")}
	found[standard.path] = standard
	if err := standard.read(lines[0], lines[0], seen); err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var pkg struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Replace            *struct{ Path, Version, Dir string }
			}
		}
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if pkg.Standard {
			continue
		}
		if within(pkg.Module.Path) {
			own[pkg.Module.Path] = true
			continue
		}
		m := found[pkg.Module.Path]
		if m == nil {
			m = &licensed{path: pkg.Module.Path, version: pkg.Module.Version}
			found[m.path] = m
		}
		if err := m.read(pkg.Module.Dir, pkg.Dir, seen); err != nil {
			return nil, err
		}
	}
	all := &licenses{own: slices.Sorted(maps.Keys(own))}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		for _, text := range m.texts {
			m.names = append(m.names, c.names(text.content)...)
		}
		slices.Sort(m.names)
		m.names = slices.Compact(m.names)
		if len(m.names) == 0 {
			problems = append(problems, fmt.Errorf("%s %s: no license found", m.path, m.version))
		}
		for _, license := range m.names {
			if !slices.Contains(accepted, license) {
				problems = append(problems, fmt.Errorf("%s %s: license %s is not accepted", m.path, m.version, license))
			}
		}
		all.modules = append(all.modules, *m)
	}
	return all, errors.Join(problems...)
}

// read adds the license files of a folder and of its parents, up to the module's folder. Folders
// that were seen are not read again.
func (m *licensed) read(root, dir string, seen map[string]bool) error {
	for ; !seen[dir]; dir = filepath.Dir(dir) {
		seen[dir] = true
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !entry.Type().IsRegular() || !licenseFile.MatchString(entry.Name()) ||
				slices.Contains(notLinked, path.Ext(entry.Name())) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				return err
			}
			below, err := filepath.Rel(root, filepath.Join(dir, entry.Name()))
			if err != nil {
				return err
			}
			m.texts = append(m.texts, file{name: path.Join("licenses", m.path, filepath.ToSlash(below)), mode: 0o644,
				content: text})
		}
		if dir == root {
			return nil
		}
	}
	return nil
}

// files returns the texts, and a table of all modules.
func (l *licenses) files() (files []file) {
	var table strings.Builder
	table.WriteString("module,version,licenses\n")
	for _, m := range l.modules {
		fmt.Fprintf(&table, "%s,%s,%s\n", m.path, m.version, strings.Join(m.names, " AND "))
		files = append(files, m.texts...)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return append([]file{{name: "licenses/licenses.csv", mode: 0o644, content: []byte(table.String())}}, files...)
}

// facts returns the licenses of all modules as SPDX expressions, and the version of the release for
// this repository's modules.
func (l *licenses) facts(version string) map[string]image.Facts {
	facts := map[string]image.Facts{}
	for _, path := range l.own {
		facts[path] = image.Facts{License: "Apache-2.0", Version: version}
	}
	for _, m := range l.modules {
		facts[m.path] = image.Facts{License: strings.Join(m.names, " AND ")}
	}
	return facts
}

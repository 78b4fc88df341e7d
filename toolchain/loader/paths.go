package loader

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"kelson.dev/toolchain/walk"
)

// pattern selects directories: base itself, and those below it that match.
type pattern struct {
	base  string
	match *regexp.Regexp // of absolute paths with slashes; nil: base only
}

// patterns returns the directories that cfg.Paths selects, relative to dir.
func (m *modules) patterns(dir string, paths []string) ([]pattern, error) {
	if len(paths) == 0 {
		paths = []string{"./..."}
	}
	var all []pattern
	for _, text := range paths {
		p, err := m.pattern(dir, text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (m *modules) pattern(dir, text string) (pattern, error) {
	full := filepath.FromSlash(text)
	if rest, ok := strings.CutPrefix(text, m.path); ok && (rest == "" || rest[0] == '/') {
		full = filepath.Join(m.root, filepath.FromSlash(rest))
	} else if !filepath.IsAbs(full) {
		if text != "." && text != ".." && !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
			return pattern{}, fmt.Errorf("path %q: not a package of module %s; paths of folders begin with ./", text,
				m.path)
		}
		full = filepath.Join(dir, full)
	}
	fixed, wild, _ := strings.Cut(full, "...")
	p := pattern{base: filepath.Clean(full)}
	if wild != "" || strings.HasSuffix(full, "...") {
		p.base = filepath.Clean(fixed)
		if !strings.HasSuffix(fixed, string(filepath.Separator)) {
			p.base = filepath.Dir(fixed) // ./api... also matches ./apis
		}
		p.match = matcher(filepath.ToSlash(full))
	}
	root, err := findUp(p.base, "go.mod")
	if err != nil {
		return pattern{}, fmt.Errorf("path %q: %w", text, err)
	}
	if root != m.root {
		return pattern{}, fmt.Errorf("path %q: the folder belongs to another module, %s: run kelson generate there",
			text, filepath.Join(root, "go.mod"))
	}
	if info, err := os.Stat(p.base); err != nil || !info.IsDir() {
		return pattern{}, fmt.Errorf("path %q: no such folder", text)
	}
	return p, nil
}

// matcher returns a regular expression for a pattern of the go command: ... matches any text, and
// /... at the end also matches the empty text.
func matcher(text string) *regexp.Regexp {
	expr := strings.ReplaceAll(regexp.QuoteMeta(text), `\.\.\.`, `.*`)
	if rest, ok := strings.CutSuffix(expr, `/.*`); ok {
		expr = rest + `(/.*)?`
	}
	return regexp.MustCompile(`^` + expr + `$`)
}

// walk calls open for every directory that the pattern selects. It does not enter directories that
// skip reports.
func (p pattern) walk(ctx context.Context, skip func(dir, base string) bool, open func(dir string)) error {
	if p.match == nil {
		open(p.base)
		return nil
	}
	return walk.Dir(p.base, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.IsDir():
			return nil
		case name != p.base && skip(name, d.Name()):
			return filepath.SkipDir
		}
		if p.match.MatchString(filepath.ToSlash(name)) {
			open(name)
		}
		return nil
	})
}

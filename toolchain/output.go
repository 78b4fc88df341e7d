package toolchain

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"kelson.dev/toolchain/loader"
)

// output collects files, so that an error prevents all writes.
type output struct {
	ws        *loader.Workspace
	dir       string
	keepEqual bool
	omit      []string
	move      []Move
	within    string
	packages  map[string]*loader.Package // of Go files, by path
	content   map[string][]byte
	removed   []string
}

// add records a file to write. It ignores nil content.
func (o *output) add(name string, content []byte) error {
	if content == nil || slices.Contains(o.omit, name) {
		return nil
	}
	rel, err := filepath.Rel(o.dir, o.destination(name))
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	if _, twice := o.content[rel]; twice {
		return fmt.Errorf("%s would be generated twice; %s", rel, twiceAdvice(rel))
	}
	o.content[rel] = content
	return nil
}

// destination returns the path at which a file is written.
func (o *output) destination(name string) string {
	for _, m := range o.move {
		if ok, err := filepath.Match(m.From, name); ok && err == nil {
			if dir, last := filepath.Split(m.To); last == "*" {
				return filepath.Join(dir, filepath.Base(name))
			}
			return m.To
		}
	}
	return name
}

// twiceAdvice returns what prevents that a file is generated twice: definitions are named by their
// plural, Go files by a kind in lower case.
func twiceAdvice(rel string) string {
	if path.Ext(rel) == ".go" {
		return fmt.Sprintf("rename a kind: its file has the name of a file of the package, or of a kind that differs only in capitals (%s)",
			strings.TrimSuffix(path.Base(rel), ".go"))
	}
	return "set another plural for one of the kinds with +kubebuilder:resource:path"
}

// same reports whether an existing file has the same meaning as its new content.
func (o *output) same(rel string, have, content []byte) bool {
	resolve := aliases(func(string, string) (string, string, bool) { return "", "", false })
	if p := o.packages[rel]; p != nil {
		resolve = aliasesOf(o.ws, p)
	}
	return sameMeaning(rel, have, content, resolve)
}

// remove records a file to remove and returns true, unless the file will be written.
func (o *output) remove(name string) (bool, error) {
	rel, err := filepath.Rel(o.dir, name)
	if err != nil {
		return false, err
	}
	if _, written := o.content[filepath.ToSlash(rel)]; written {
		return false, nil
	}
	o.removed = append(o.removed, filepath.ToSlash(rel))
	return true, nil
}

// write writes and removes the recorded files. If check is true, it only reports the files that it
// would write.
func (o *output) write(check bool) (Result, error) {
	var res Result
	if err := o.confined(); err != nil {
		return res, err
	}
	var errs []error
	for rel, content := range o.content {
		name := filepath.Join(o.dir, filepath.FromSlash(rel))
		have, err := os.ReadFile(name)
		content = withLineEnds(have, content)
		f := File{Path: rel, Content: content, Changed: err != nil || !bytes.Equal(have, content)}
		if err == nil && f.Changed && o.keepEqual && o.same(rel, have, content) {
			f.Content, f.Changed = have, false
		}
		if f.Changed && !check {
			errs = append(errs, writeFile(name, content))
		}
		res.Files = append(res.Files, f)
	}
	for _, rel := range o.removed {
		if !check {
			errs = append(errs, os.Remove(filepath.Join(o.dir, filepath.FromSlash(rel))))
		}
		res.Files = append(res.Files, File{Path: rel, Changed: true, Removed: true})
	}
	sort.Slice(res.Files, func(i, j int) bool { return res.Files[i].Path < res.Files[j].Path })
	if check && len(res.Changed()) > 0 {
		errs = append(errs, fmt.Errorf("%w: %v", ErrStale, res.Changed()))
	}
	return res, errors.Join(errs...)
}

// OutsideError means that a generated file would be outside of Options.Within, perhaps through a
// symbolic link.
type OutsideError struct {
	Path   string // as generated, relative to Options.Dir
	Target string // the absolute path behind symbolic links
	Within string
}

func (e *OutsideError) Error() string {
	return fmt.Sprintf("generate %s: it is outside of the project: %s is not below %s", e.Path, e.Target, e.Within)
}

// confined returns an *OutsideError for each recorded file that is outside of the permitted
// directory. It runs before the first write, so that an error prevents all writes.
func (o *output) confined() error {
	if o.within == "" {
		return nil
	}
	within, err := behindLinks(o.within)
	if err != nil {
		return err
	}
	var errs []error
	for _, rel := range append(slices.Sorted(maps.Keys(o.content)), o.removed...) {
		target, err := behindLinks(filepath.Join(o.dir, filepath.FromSlash(rel)))
		if err != nil {
			errs = append(errs, fmt.Errorf("generate %s: %w", rel, err))
			continue
		}
		if inside, err := filepath.Rel(within, target); err != nil || !filepath.IsLocal(inside) {
			errs = append(errs, &OutsideError{Path: rel, Target: target, Within: within})
		}
	}
	return errors.Join(errs...)
}

// behindLinks returns an absolute path without symbolic links. The last elements of the path need
// not exist.
func behindLinks(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	missing := ""
	for at := name; ; at = filepath.Dir(at) {
		target, err := filepath.EvalSymlinks(at)
		switch {
		case err == nil:
			return filepath.Join(target, missing), nil
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return "", err
		}
		missing = filepath.Join(filepath.Base(at), missing)
	}
}

// withLineEnds returns content with the line ends of an existing file. By default, Git on Windows
// checks files out with CRLF.
func withLineEnds(have, content []byte) []byte {
	if !bytes.Contains(have, []byte("\r\n")) {
		return content
	}
	return bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n"))
}

// writeFile replaces a file, or the file to which a symbolic link points, atomically, so that a
// running compiler never reads a partial file.
func writeFile(name string, content []byte) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("write generated file: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write generated file: %w", err)
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write generated file: %w", err)
	}
	return nil
}

// report joins errors in the order of their positions, without duplicate messages.
func report(errs []error) error {
	var flat []error
	seen := map[string]bool{}
	var visit func(error)
	visit = func(err error) {
		if err == nil {
			return
		}
		if list, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range list.Unwrap() {
				visit(e)
			}
			return
		}
		if !seen[err.Error()] {
			seen[err.Error()] = true
			flat = append(flat, err)
		}
	}
	visit(errors.Join(errs...))
	sort.SliceStable(flat, func(i, j int) bool {
		var a, b *loader.Error
		if !errors.As(flat[i], &a) || !errors.As(flat[j], &b) {
			return false
		}
		if a.Pos.Filename != b.Pos.Filename {
			return a.Pos.Filename < b.Pos.Filename
		}
		return a.Pos.Offset < b.Pos.Offset
	})
	return errors.Join(flat...)
}

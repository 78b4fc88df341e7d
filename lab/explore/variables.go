package explore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A process of a Binary gets the paths of its kubeconfig and of the certificate of its webhooks by
// the variables $KUBECONFIG and $CERTIFICATES in its arguments, its environment and its files.

// resolve returns the absolute path of a file that an argument names.
func (b *Binary) resolve(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(b.Dir, path)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// named returns the part of an argument or of a variable of the environment that may name a file: a
// value after "=", or the whole text.
func named(text string) (before, path string) {
	if name, value, ok := strings.Cut(text, "="); ok {
		return name + "=", value
	}
	return "", text
}

// checkFiles returns an error for a file that does not exist, or that no argument and no variable
// names: then no process would read its copy.
func (b *Binary) checkFiles() error {
	for _, file := range b.Files {
		if _, err := os.Stat(b.resolve(file)); err != nil {
			return fmt.Errorf("files: %w", err)
		}
		uses := func(text string) bool {
			_, path := named(text)
			return path != "" && b.resolve(path) == b.resolve(file)
		}
		if !slices.ContainsFunc(b.Args, uses) && !slices.ContainsFunc(append(b.inherited(), b.Env...), uses) {
			return fmt.Errorf("files: %s: no argument and no variable of the operator's environment names this file",
				file)
		}
	}
	return nil
}

// inherited returns the variables that a process gets from this one.
func (b *Binary) inherited() []string {
	// With these, a program would look for the API server of its Pod.
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBERNETES_SERVICE_") })
}

// variables replaces the variables for one process.
type variables struct {
	binary *Binary
	values *strings.Replacer
	copies map[string]string // of the files, by absolute path
}

// newVariables copies the files of a binary to a folder. The file of the authority of services is
// "" if there are none.
func newVariables(b *Binary, dir, kubeconfig, certificates, authority string) (*variables, error) {
	v := &variables{binary: b, copies: map[string]string{},
		values: strings.NewReplacer("${KUBECONFIG}", kubeconfig, "$KUBECONFIG", kubeconfig,
			"${CERTIFICATES}", certificates, "$CERTIFICATES", certificates,
			"${SERVICES_CA}", authority, "$SERVICES_CA", authority)}
	for _, file := range b.Files {
		content, err := os.ReadFile(b.resolve(file))
		if err != nil {
			return nil, fmt.Errorf("files: %w", err)
		}
		folder, err := os.MkdirTemp(dir, "file-")
		if err != nil {
			return nil, err
		}
		name := filepath.Join(folder, filepath.Base(file)) // programs may decide by the ending
		if err := os.WriteFile(name, []byte(v.values.Replace(string(content))), 0o600); err != nil {
			return nil, errors.Join(err, os.RemoveAll(folder))
		}
		v.copies[b.resolve(file)] = name
	}
	return v, nil
}

// replace replaces the variables in texts, and paths of files by those of their copies.
func (v *variables) replace(texts []string) []string {
	replaced := make([]string, len(texts))
	for i, text := range texts {
		before, path := named(text)
		if name, ok := v.copies[v.binary.resolve(path)]; ok && path != "" {
			replaced[i] = before + name
			continue
		}
		replaced[i] = v.values.Replace(text)
	}
	return replaced
}

package adopt

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
)

// Deployment returns the folder of the kustomization that a project deploys: config/default, or the
// one that the recipe of the Makefile's target deploy builds instead, with kustomize or kubectl.
// source is the file and line of that call; it is "" for config/default. If the recipe builds
// several others, the folder is config/default.
func Deployment(dir string) (folder, source string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	byDefault := filepath.Join(dir, "config", "default")
	f := &finder{dir: dir, seen: map[string]bool{}, read: map[string]bool{}}
	m, err := f.makefile()
	if m == nil || err != nil {
		return byDefault, "", err
	}
	for _, line := range m.lines {
		if !slices.Contains(line.targets, "deploy") {
			continue
		}
		at := dir
		for _, words := range commands(m.expand(strings.TrimLeft(line.text, "@+- "), 0), func(string) string {
			return unresolved
		}) {
			at = changed(at, words)
			built := kustomization(words, at)
			if built == "" || built == folder {
				continue
			}
			if folder != "" || built == byDefault {
				return byDefault, "", nil
			}
			folder, source = built, line.source
		}
	}
	if folder == "" {
		folder = byDefault
	}
	return folder, source, nil
}

// kustomization returns the folder of the kustomization that a command in dir builds, or "":
//
//	kustomize build FOLDER
//	kubectl kustomize FOLDER
//	kubectl apply -k FOLDER
func kustomization(words []string, dir string) string {
	var folder string
	for i, w := range words[:len(words)-1] {
		next := words[i+1:]
		switch {
		case (w == "build" || w == "kustomize") && i > 0 && isTool(words[i-1]):
			if at := slices.IndexFunc(next, func(w string) bool { return !strings.HasPrefix(w, "-") }); at >= 0 {
				folder = next[at]
			}
		case (w == "-k" || w == "--kustomize") && slices.Contains(words[:i], "apply"):
			folder = next[0]
		}
	}
	if folder == "" || unknown(folder) || unknown(dir) {
		return ""
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(dir, filepath.FromSlash(folder))
	}
	if !HasKustomization(folder) {
		return ""
	}
	return filepath.Clean(folder)
}

// HasKustomization reports whether a folder has a kustomization.
func HasKustomization(folder string) bool { return Kustomization(folder) != "" }

// Kustomization returns the path of the kustomization in a folder, or "" if there is none.
func Kustomization(folder string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// isTool reports whether a word runs kustomize or kubectl, or a tool in a variable.
func isTool(word string) bool {
	return unknown(word) || strings.Contains(word, "kustomize") || path.Base(word) == "kubectl" ||
		path.Base(word) == "oc"
}

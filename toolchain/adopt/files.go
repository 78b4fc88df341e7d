package adopt

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ImageFile is a file or folder of a project that is in its container image.
type ImageFile struct {
	// Source is relative to the project, and To is absolute, with slashes.
	Source, To string
}

// ImageFiles returns what the last stage of a project's Dockerfile copies from the project. It
// omits arguments with variables, whose values it does not have, as well as URLs, files of other
// stages, and copies of the whole project.
func ImageFiles(dir string) (files []ImageFile) {
	workdir := "/"
	for _, i := range instructions(filepath.Join(dir, "Dockerfile")) {
		switch i.name {
		case "FROM":
			files, workdir = nil, "/"
		case "WORKDIR":
			workdir = inImage(workdir, strings.Trim(i.rest, `"`))
		case "COPY", "ADD":
			files = append(files, copied(dir, workdir, i.rest)...)
		}
	}
	return files
}

// inImage returns a path of an image, which can be relative to its working directory.
func inImage(workdir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(workdir, name)
}

// copied returns the files of a COPY instruction.
func copied(dir, workdir, text string) (files []ImageFile) {
	words := copyArguments(text)
	if len(words) < 2 {
		return nil
	}
	sources, to := words[:len(words)-1], words[len(words)-1]
	folder := strings.HasSuffix(to, "/") || to == "." || len(sources) > 1
	to = inImage(workdir, to)
	for _, source := range sources {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(source)))
		if err != nil {
			continue
		}
		for _, name := range found {
			rel, err := filepath.Rel(dir, name)
			if err != nil || rel == "." || !filepath.IsLocal(rel) {
				continue
			}
			f := ImageFile{Source: filepath.ToSlash(rel), To: to}
			if !isFolder(name) && (folder || len(found) > 1) {
				f.To = path.Join(to, filepath.Base(name))
			}
			files = append(files, f)
		}
	}
	return files
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// copyArguments returns the arguments of a COPY instruction without its flags. It returns none if
// it copies from another stage or has a variable.
func copyArguments(text string) (words []string) {
	for strings.HasPrefix(text, "--") {
		flag, rest, _ := strings.Cut(text, " ")
		if strings.HasPrefix(flag, "--from") {
			return nil
		}
		text = strings.TrimSpace(rest)
	}
	if json.Unmarshal([]byte(text), &words) != nil {
		words = strings.Fields(text)
	}
	if slices.ContainsFunc(words, func(w string) bool {
		return strings.ContainsAny(w, "$") || strings.Contains(w, "://") || strings.HasPrefix(w, "<<")
	}) {
		return nil
	}
	return words
}

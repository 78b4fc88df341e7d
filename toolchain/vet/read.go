package vet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"kelson.dev/toolchain/walk"
)

// Manifest is one object in a file.
type Manifest struct {
	File   string
	Object *unstructured.Unstructured
	node   *yaml.Node // the document, for the lines of its fields
	line   int        // the line before the document
}

// Manifests are objects in the order of their files.
type Manifests []*Manifest

// NotAnObjectError reports a document that is not a Kubernetes object or cannot be parsed.
type NotAnObjectError struct {
	File string
	Line int
	Err  error
}

func (e *NotAnObjectError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *NotAnObjectError) Unwrap() error { return e.Err }

// Read reads files, and the .yaml, .yml and .json files below folders. Below folders it ignores
// kustomizations and the patches and configurations that they name, Helm charts, hidden folders,
// and documents without apiVersion or kind. "-" is the standard input.
//
// Each document that cannot be parsed is a *NotAnObjectError. Read joins these errors and still
// returns the other objects.
func Read(paths ...string) (Manifests, error) {
	var all Manifests
	var errs []error
	for _, p := range paths {
		if p == "-" {
			found, err := readAll(os.Stdin, "<stdin>", true)
			all, errs = append(all, found...), append(errs, err)
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files := []string{p}
		if info.IsDir() {
			if files, err = below(p); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		for _, file := range files {
			found, err := readFile(file, !info.IsDir())
			all, errs = append(all, found...), append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// Parse parses the objects in the content of a file.
func Parse(file string, content []byte) (Manifests, error) {
	return readAll(bytes.NewReader(content), file, true)
}

func readFile(file string, named bool) (Manifests, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, file, named)
}

// below lists the manifests in a folder and its subfolders.
func below(dir string) ([]string, error) {
	var files []string
	err := walk.Dir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != dir && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "Chart.yaml")); err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if isManifest(d.Name()) || isKustomization(d.Name()) {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	partial := map[string]bool{} // files that are not objects by themselves
	for _, file := range files {
		if isKustomization(filepath.Base(file)) {
			partial[file] = true
			for _, name := range patchesOf(file) {
				partial[filepath.Join(filepath.Dir(file), name)] = true
			}
		}
	}
	return slices.DeleteFunc(files, func(file string) bool { return partial[file] }), nil
}

func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func isKustomization(name string) bool {
	return name == "kustomization.yaml" || name == "kustomization.yml" || name == "Kustomization"
}

// disabledPatch matches a patch that a kustomization names in a comment, as those of kubebuilder
// do.
var disabledPatch = regexp.MustCompile(`(?m)^\s*#[#\s]*-\s*(?:path:\s*)?["']?([\w./-]*patch[\w./-]*\.ya?ml)["']?\s*$`)

// patchesOf lists the files that a kustomization uses as patches or configuration, and the patches
// that it names in comments.
func patchesOf(file string) []string {
	var k struct {
		Patches []struct {
			Path string `yaml:"path"`
		} `yaml:"patches"`
		JSON []struct {
			Path string `yaml:"path"`
		} `yaml:"patchesJson6902"`
		Replacements []struct {
			Path string `yaml:"path"`
		} `yaml:"replacements"`
		Merge          []string `yaml:"patchesStrategicMerge"`
		Configurations []string `yaml:"configurations"`
		Transformers   []string `yaml:"transformers"`
		Generators     []string `yaml:"generators"`
	}
	content, err := os.ReadFile(file)
	if err != nil || yaml.Unmarshal(content, &k) != nil {
		return nil
	}
	names := slices.Concat(k.Merge, k.Configurations, k.Transformers, k.Generators)
	for _, m := range disabledPatch.FindAllSubmatch(content, -1) {
		names = append(names, string(m[1]))
	}
	for _, list := range [][]struct {
		Path string `yaml:"path"`
	}{k.Patches, k.JSON, k.Replacements} {
		for _, p := range list {
			if p.Path != "" {
				names = append(names, p.Path)
			}
		}
	}
	return names
}

// readAll parses the documents of a file. If the file was named explicitly, each must be an object.
func readAll(r io.Reader, file string, named bool) (Manifests, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var all Manifests
	var errs []error
	line := 0
	for _, doc := range documents(content) {
		begin := line
		line += bytes.Count(doc, []byte("\n"))
		m, err := parse(doc, named)
		if err != nil {
			errs = append(errs, notAnObject(file, begin, err))
			continue
		}
		for _, each := range m {
			each.File, each.line = file, begin
			all = append(all, each)
		}
	}
	return all, errors.Join(errs...)
}

// yamlLine matches the lines in errors of the YAML parser, which count from the begin of a
// document.
var yamlLine = regexp.MustCompile(`\bline (\d+)`)

// notAnObject returns the error of a document that begins after a number of lines. It has the lines
// of the file.
func notAnObject(file string, before int, err error) error {
	at := before + 1
	text := yamlLine.ReplaceAllStringFunc(err.Error(), func(found string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(found, "line ")) // digits
		return fmt.Sprintf("line %d", before+n)
	})
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		at, _ = strconv.Atoi(found[1])
		// of several errors in a document, the first one
		text, _, _ = strings.Cut(strings.Replace(text, "yaml: unmarshal errors:\n  ", "yaml: ", 1), "\n")
		text = strings.Replace(text, fmt.Sprintf("line %d: ", at), "", 1)
		err = errors.New(text)
	}
	return &NotAnObjectError{File: file, Line: at, Err: err}
}

// Unreadable returns the documents among the errors of Read and Parse that are not objects, as
// findings, and all other errors.
func Unreadable(err error) ([]Finding, error) {
	var findings []Finding
	var others []error
	var split func(error)
	split = func(err error) {
		var document *NotAnObjectError
		joined, many := err.(interface{ Unwrap() []error })
		switch {
		case err == nil:
		case many:
			for _, each := range joined.Unwrap() {
				split(each)
			}
		case errors.As(err, &document):
			findings = append(findings, Finding{Severity: Error, File: document.File, Line: document.Line,
				Message: document.Err.Error()})
		default:
			others = append(others, err)
		}
	}
	split(err)
	return findings, errors.Join(others...)
}

// documents splits a file before each "---" line.
func documents(content []byte) [][]byte {
	var docs [][]byte
	begin := 0
	for at := 0; at < len(content); {
		end := bytes.IndexByte(content[at:], '\n') + 1
		if end == 0 {
			end = len(content) - at
		}
		if line := content[at : at+end]; at > begin &&
			(bytes.HasPrefix(line, []byte("---\n")) || bytes.HasPrefix(line, []byte("--- ")) ||
				bytes.HasPrefix(line, []byte("---\r")) || bytes.Equal(line, []byte("---"))) {
			docs = append(docs, content[begin:at])
			begin = at
		}
		at += end
	}
	return jsonValues(append(docs, content[begin:]))
}

// jsonValues splits documents that are several JSON values in a row, as jq writes them.
func jsonValues(docs [][]byte) [][]byte {
	var all [][]byte
	for _, doc := range docs {
		if text := bytes.TrimLeft(doc, " \t\r\n"); len(text) == 0 || text[0] != '{' {
			all = append(all, doc)
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(doc))
		rest := doc
		for begin := 0; ; {
			var value json.RawMessage
			if decoder.Decode(&value) != nil {
				break // the end, or not JSON
			}
			end := int(decoder.InputOffset())
			all, rest, begin = append(all, doc[begin:end]), doc[end:], end
		}
		if len(bytes.TrimSpace(rest)) > 0 {
			all = append(all, rest)
		}
	}
	return all
}

// parse parses a document: empty, an object, or a List of objects.
func parse(doc []byte, named bool) (Manifests, error) {
	var node yaml.Node
	var plain, content map[string]any
	err := yaml.Unmarshal(doc, &node)
	if err == nil {
		err = node.Decode(&plain) // rejects duplicate keys
	}
	if err == nil {
		err = utilyaml.Unmarshal(doc, &content) // with JSON's types
	}
	obj := &unstructured.Unstructured{Object: content}
	if err == nil && len(content) > 0 && (obj.GetAPIVersion() == "" || obj.GetKind() == "") {
		err = &missingKindError{}
	}
	switch {
	case err != nil && (named || broken(doc, err)):
		return nil, err
	case err != nil || len(content) == 0:
		// in a folder it may be a template or a configuration file
		return nil, nil
	}
	if group := obj.GroupVersionKind().Group; group == "kustomize.config.k8s.io" {
		return nil, nil
	}
	if !obj.IsList() {
		return Manifests{{Object: obj, node: &node}}, nil
	}
	items, _, _ := unstructured.NestedSlice(content, "items")
	var all Manifests
	for i, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d] is not an object", i)
		}
		if kind, typed := strings.CutSuffix(obj.GetKind(), "List"); typed && kind != "" && m["kind"] == nil &&
			m["apiVersion"] == nil {
			m["kind"], m["apiVersion"] = kind, obj.GetAPIVersion() // as in lists of the API
		}
		n, _, _ := lookup(&node, []string{"items", strconv.Itoa(i)})
		all = append(all, &Manifest{Object: &unstructured.Unstructured{Object: m}, node: n})
	}
	return all, nil
}

// header matches the lines that all objects have.
var header = [...]*regexp.Regexp{regexp.MustCompile(`(?m)^\s*"?apiVersion"?\s*:`),
	regexp.MustCompile(`(?m)^\s*"?kind"?\s*:`)}

// broken reports whether a document in a folder that cannot be parsed is an object with an error,
// not a template.
func broken(doc []byte, err error) bool {
	var missing *missingKindError
	return !errors.As(err, &missing) && !bytes.Contains(doc, []byte("{{")) && header[0].Match(doc) &&
		header[1].Match(doc)
}

// missingKindError means that a document has no apiVersion or no kind.
type missingKindError struct{}

func (*missingKindError) Error() string { return "not an object: apiVersion or kind is missing" }

// Title returns the kind and name of the object.
func (m *Manifest) Title() string {
	name := m.Object.GetName()
	if name == "" {
		name = m.Object.GetGenerateName() + "*"
	}
	if ns := m.Object.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return m.Object.GetKind() + " " + name
}

// Line returns the line of a field or, if the field is not in the document, of its nearest
// ancestor.
func (m *Manifest) Line(path string) int {
	if m.node == nil {
		return m.line + 1
	}
	_, line, _ := lookup(m.node, steps(path))
	return m.line + line
}

// has reports whether the document has a field.
func (m *Manifest) has(path string) bool {
	if m.node == nil {
		return false
	}
	_, _, found := lookup(m.node, steps(path))
	return found
}

// finding returns a finding about a field of the object.
func (m *Manifest) finding(s Severity, path, format string, args ...any) Finding {
	return Finding{Severity: s, File: m.File, Line: m.Line(path), Object: m.Title(), Path: path,
		Message: fmt.Sprintf(format, args...)}
}

const definitionKind = "CustomResourceDefinition"

// Definition is a CustomResourceDefinition with its position.
type Definition struct {
	*Manifest
	*apiextensionsv1.CustomResourceDefinition
}

// Definitions returns the objects that are valid CustomResourceDefinitions.
func (ms Manifests) Definitions() []Definition {
	var all []Definition
	for _, m := range ms {
		if gvk := m.Object.GroupVersionKind(); gvk.Kind != definitionKind || gvk.Group != apiextensionsv1.GroupName {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, crd) == nil {
			all = append(all, Definition{m, crd})
		}
	}
	return all
}

// lookup follows a path in a document as far as it exists, and returns the line of the last name.
// It reports whether it has found all of the path.
func lookup(node *yaml.Node, path []string) (_ *yaml.Node, line int, found bool) {
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	line = node.Line
	for _, step := range path {
		value, at := child(node, step)
		if value == nil {
			return node, line, false
		}
		node, line = value, at
	}
	return node, line, true
}

// child returns a member or an element, with the line of its name.
func child(node *yaml.Node, step string) (*yaml.Node, int) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if index, err := strconv.Atoi(step); err == nil && index >= 0 && index < len(node.Content) {
			return node.Content[index], node.Content[index].Line
		}
	}
	return nil, 0
}

// steps splits a field path such as spec.list[2].labels[a.b/c] into names and indexes.
func steps(path string) []string {
	var all []string
	for path != "" {
		switch {
		case path[0] == '.':
			path = path[1:]
		case path[0] == '[':
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return all
			}
			all = append(all, strings.Trim(path[1:end], `"'`))
			path = path[end+1:]
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			all = append(all, path[:end])
			path = path[end:]
		}
	}
	return all
}

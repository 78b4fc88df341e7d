// Command generate packs Kubernetes' own OpenAPI documents into kubernetes.zip, so that serving
// them needs no parsing.
//
// The source is api/openapi-spec of the module k8s.io/kubernetes in go.mod. Unlike a server's,
// these documents lack the version and the values of enum fields; enums.go adds them. The archive
// has:
//
//	v3/<path>.json, v3/<path>.pb   one document per path of /openapi/v3; the comment of the entry is the document's hash
//	v2/head.json                   the beginning of the one document of /openapi/v2, up to the first path
//	v2/paths/<path>.json, .pb      its paths, by group version
//	v2/definitions.json            the members of its definitions
//	v2/parameters.json             the members of its parameters
//	v2/base.pb                     all but the paths, as protobuf
//	v2/names                       the names of definitions and parameters, one a line
//
// Concatenated protobuf messages are one merged message, and the members of JSON objects can be
// concatenated. Therefore a control plane joins the served parts of v2 by copying bytes.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"maps"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/handler3"
)

func main() {
	log.SetFlags(0)
	if err := run("kubernetes.zip"); err != nil {
		log.Fatal(err)
	}
}

func run(out string) error {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return fmt.Errorf("find k8s.io/kubernetes: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(dir)), "api", "openapi-spec")
	a := &archive{}
	a.zip = zip.NewWriter(&a.buf)
	a.zip.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	if err := a.addV3(filepath.Join(source, "v3")); err != nil {
		return err
	}
	if err := a.addV2(filepath.Join(source, "swagger.json")); err != nil {
		return err
	}
	if err := a.zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(out, a.buf.Bytes(), 0o644)
}

type archive struct {
	buf bytes.Buffer
	zip *zip.Writer
}

func (a *archive) add(name, comment string, data []byte) error {
	w, err := a.zip.CreateHeader(&zip.FileHeader{Name: name, Comment: comment, Method: zip.Deflate})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func (a *archive) addV3(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*_openapi.json"))
	if err != nil {
		return err
	}
	dotted, err := filepath.Glob(filepath.Join(dir, ".*_openapi.json"))
	if err != nil {
		return err
	}
	for _, file := range append(files, dotted...) {
		path := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), "_openapi.json"), "__", "/")
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		compact, err := completed(data, "components", "schemas")
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		pb, err := handler3.ToV3ProtoBinary(compact)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		hash := fmt.Sprintf("%X", sha256.Sum256(compact))
		if err := a.add("v3/"+path+".json", hash, compact); err != nil {
			return err
		}
		if err := a.add("v3/"+path+".pb", hash, pb); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) addV2(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if data, err = completed(data, "definitions"); err != nil {
		return err
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	parts := map[string]map[string]json.RawMessage{"paths": {}, "definitions": {}, "parameters": {}}
	for name, part := range parts {
		if err := json.Unmarshal(doc[name], &part); err != nil {
			return err
		}
		delete(doc, name)
	}
	// of /logs
	maps.DeleteFunc(parts["parameters"], func(name string, _ json.RawMessage) bool {
		return strings.HasPrefix(name, "logpath-")
	})

	head := bytes.TrimSuffix(object(doc), []byte("}"))
	if err := a.add("v2/head.json", "", append(head, `,"paths":{`...)); err != nil {
		return err
	}
	for _, name := range []string{"definitions", "parameters"} {
		if err := a.add("v2/"+name+".json", "", members(parts[name])); err != nil {
			return err
		}
	}
	names := append(slices.Sorted(maps.Keys(parts["definitions"])), slices.Sorted(maps.Keys(parts["parameters"]))...)
	if err := a.add("v2/names", "", []byte(strings.Join(names, "\n"))); err != nil {
		return err
	}
	doc["definitions"], doc["parameters"], doc["paths"] = object(parts["definitions"]), object(parts["parameters"]),
		[]byte("{}")
	if err := a.addProto("v2/base.pb", object(doc)); err != nil {
		return err
	}

	groups := map[string]map[string]json.RawMessage{}
	for path, item := range parts["paths"] {
		key := groupVersion(path)
		if groups[key] == nil {
			groups[key] = map[string]json.RawMessage{}
		}
		groups[key][path] = item
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if err := a.add("v2/paths/"+key+".json", "", members(groups[key])); err != nil {
			return err
		}
		alone := object(map[string]json.RawMessage{
			"swagger": []byte(`"2.0"`), "info": []byte(`{"title":"","version":""}`), "paths": object(groups[key]),
		})
		if err := a.addProto("v2/paths/"+key+".pb", alone); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) addProto(name string, doc []byte) error {
	parsed, err := openapiv2.ParseDocument(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if strings.HasPrefix(name, "v2/paths/") { // base.pb has them
		parsed.Swagger, parsed.Info = "", nil
	}
	pb, err := proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return a.add(name, "", pb)
}

// groupVersion returns the part of a path up to its group version: api/v1, apis/apps/v1, apis/apps,
// version.
func groupVersion(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	most := len(parts)
	switch parts[0] {
	case "api":
		most = 2
	case "apis":
		most = 3
	}
	return strings.Join(parts[:min(most, len(parts))], "/")
}

func object(m map[string]json.RawMessage) []byte {
	return append(append([]byte("{"), members(m)...), '}')
}

// members returns the members of a JSON object, sorted by name, compact, without the braces.
func members(m map[string]json.RawMessage) []byte {
	var out bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			out.WriteByte(',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			log.Fatal(err) // a string always has a JSON form
		}
		out.Write(quoted)
		out.WriteByte(':')
		if err := json.Compact(&out, m[name]); err != nil {
			log.Fatal(err) // the value was parsed before
		}
	}
	return out.Bytes()
}

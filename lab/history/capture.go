package history

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// captureVersion is the newest version of k8shark's archives that ImportCapture reads.
const captureVersion = 2

// ErrEncryptedCapture is the error that ImportCapture returns for an encrypted archive.
var ErrEncryptedCapture = errors.New("the capture is encrypted: decrypt it with kshrk decrypt")

// maxRecord is the maximum size of a record, uncompressed.
const maxRecord = 1 << 30

const (
	zipTag = "PK\x03\x04"
	ageTag = "age-encryption.org/v1\n"
)

// IsCapture reports whether a file is a capture of k8shark: an archive, or a stream of its records.
func IsCapture(r io.ReaderAt) bool {
	head := make([]byte, len(ageTag))
	n, _ := r.ReadAt(head, 0)
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte(zipTag)), string(head) == ageTag:
		return true
	case !bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")):
		return false
	}
	var first captureRecord
	err := json.NewDecoder(io.NewSectionReader(r, 0, 1<<62)).Decode(&first)
	return err == nil && first.Path != ""
}

// ImportCapture writes the versions in a capture of k8shark to a history. The capture is an archive
// (.kshrk), or the stream of records that kshrk capture --out - writes. The time of a version is
// when k8shark received it. If an object is missing in a list, it was deleted at the revision of
// the list, unless the capture has the event of its deletion. ImportCapture removes the values of
// Secrets unless secrets is true.
func ImportCapture(w *Writer, r io.ReaderAt, size int64, secrets bool) (Imported, error) {
	source, err := openCapture(r, size)
	if err != nil {
		return Imported{}, fmt.Errorf("read the capture: %w", err)
	}
	c := &captureImport{to: w, secrets: secrets, listed: map[string]map[Key]bool{}}
	if err := c.discover(source); err != nil {
		return Imported{}, fmt.Errorf("read the capture: %w", err)
	}
	if err := source(c.wants, c.add); err != nil {
		return Imported{}, fmt.Errorf("read the capture: %w", err)
	}
	return c.imported, w.Flush()
}

// captureRecord is a response that k8shark has received: a list, an object of a watch, or a
// discovery document.
type captureRecord struct {
	Time  time.Time       `json:"captured_at"`
	Path  string          `json:"api_path"`
	Event string          `json:"event_type"`
	Code  int             `json:"response_code"`
	Body  json.RawMessage `json:"response_body"`
}

// captureSource calls do with the records whose path is wanted, in the order of their times.
type captureSource func(want func(path string) bool, do func(*captureRecord) error) error

func openCapture(r io.ReaderAt, size int64) (captureSource, error) {
	head := make([]byte, len(ageTag))
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case string(head[:n]) == ageTag:
		return nil, ErrEncryptedCapture
	case bytes.HasPrefix(head[:n], []byte(zipTag)):
		return openCaptureArchive(r, size)
	}
	return func(want func(string) bool, do func(*captureRecord) error) error {
		d := json.NewDecoder(io.NewSectionReader(r, 0, size))
		for n := 1; ; n++ {
			var record captureRecord
			err := d.Decode(&record)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil && record.Path == "" {
				err = errors.New("it has no api_path")
			}
			if err == nil && want(record.Path) {
				err = do(&record)
			}
			if err != nil {
				return fmt.Errorf("record %d: %w", n, err)
			}
		}
	}, nil
}

// openCaptureArchive opens a zip file: a description, an index of the lists, an index of the events
// of watches, and a file for each record.
func openCaptureArchive(r io.ReaderAt, size int64) (captureSource, error) {
	const folder = "k8shark-capture/"
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecord))
	if err != nil {
		return nil, err
	}
	read := func(name string, to any) error {
		f, err := archive.Open(folder + name)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err := io.ReadAll(f)
		if err == nil && strings.HasSuffix(name, ".zst") {
			data, err = decoder.DecodeAll(data, nil)
		}
		if err == nil {
			err = json.Unmarshal(data, to)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	var description struct {
		Version int `json:"format_version"`
	}
	if err := read("metadata.json", &description); err != nil {
		return nil, err
	}
	if description.Version > captureVersion {
		return nil, fmt.Errorf("its format has version %d, and only versions up to %d can be read", description.Version,
			captureVersion)
	}
	type reference struct {
		path string
		seq  int
		time time.Time
	}
	var records []reference
	for _, name := range []string{"index.json.zst", "watch-index.json.zst"} {
		var index captureIndex
		if err := read(name, &index); err != nil {
			if name != "index.json.zst" && errors.Is(err, fs.ErrNotExist) {
				continue // captured without watches
			}
			return nil, err
		}
		for path, entry := range index {
			if len(entry.Seqs) != len(entry.Times) {
				return nil, fmt.Errorf("%s: %s has %d numbers and %d times", name, path, len(entry.Seqs),
					len(entry.Times))
			}
			for i, seq := range entry.Seqs {
				records = append(records, reference{path, seq, entry.Times[i]})
			}
		}
	}
	slices.SortFunc(records, func(a, b reference) int {
		return cmp.Or(a.time.Compare(b.time), strings.Compare(a.path, b.path), a.seq-b.seq)
	})
	return func(want func(string) bool, do func(*captureRecord) error) error {
		for _, ref := range records {
			if !want(ref.path) {
				continue
			}
			sum := sha256.Sum256([]byte(ref.path))
			name := fmt.Sprintf("records/%s/%d.json.zst", hex.EncodeToString(sum[:8]), ref.seq)
			var record captureRecord
			if err := read(name, &record); err != nil {
				return err
			}
			if err := do(&record); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}, nil
}

// captureIndex maps each path to its records. In version 2 of the format, the field entries
// contains the map.
type captureIndex map[string]captureEntry

type captureEntry struct {
	Seqs  []int       `json:"seqs"`
	Times []time.Time `json:"times"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *captureIndex) UnmarshalJSON(data []byte) error {
	var wrapped struct {
		Entries map[string]captureEntry `json:"entries"`
	}
	if err := json.Unmarshal(data, &wrapped); err != nil || wrapped.Entries != nil {
		*c = wrapped.Entries
		return err
	}
	return json.Unmarshal(data, (*map[string]captureEntry)(c))
}

// captureImport writes the records of a capture to a history.
type captureImport struct {
	to        *Writer
	secrets   bool
	resources map[string]Resource     // by name, each in the version whose records are imported
	listed    map[string]map[Key]bool // the objects that exist now, by path
	imported  Imported
}

// collection is the resource that the path of a list names.
type collection struct{ group, version, resource string }

// collectionOf parses the path of a list; it returns false for all other paths.
func collectionOf(path string) (c collection, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case strings.Contains(path, "?"): // tables and logs
		return c, false
	case len(parts) > 2 && parts[0] == "api":
		c.version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		c.group, c.version, parts = parts[1], parts[2], parts[3:]
	default:
		return c, false
	}
	if len(parts) == 3 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	c.resource = parts[0]
	return c, len(parts) == 1
}

// discover chooses the version of each resource, and takes its names from the discovery documents
// in the capture.
func (c *captureImport) discover(source captureSource) error {
	captured := map[collection]bool{}
	preferred := map[string]string{} // versions by group
	described := map[collection]Resource{}
	want := func(path string) bool {
		if found, ok := collectionOf(path); ok {
			captured[found] = true
			return false
		}
		parts := strings.Split(path, "/")
		return path == "/apis" || path == "/api/v1" || len(parts) == 4 && parts[1] == "apis"
	}
	err := source(want, func(r *captureRecord) error {
		var document struct {
			Groups []struct {
				Name             string
				PreferredVersion struct{ Version string }
			}
			GroupVersion string
			Resources    []struct {
				Name, SingularName, Kind string
				ShortNames               []string
				Namespaced               bool
			}
		}
		if r.Code >= 300 || json.Unmarshal(r.Body, &document) != nil {
			return nil // an API server that did not respond
		}
		for _, g := range document.Groups {
			preferred[g.Name] = g.PreferredVersion.Version
		}
		group, version, found := strings.Cut(document.GroupVersion, "/")
		if !found {
			group, version = "", group
		}
		for _, one := range document.Resources {
			described[collection{group, version, one.Name}] = Resource{Group: group, Version: version,
				Resource: one.Name, Kind: one.Kind,
				Singular: one.SingularName, ShortNames: one.ShortNames, Namespaced: one.Namespaced}
		}
		return nil
	})
	c.resources = map[string]Resource{}
	all := slices.SortedFunc(maps.Keys(captured), func(a, b collection) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.resource, b.resource),
			strings.Compare(a.version, b.version))
	})
	for _, one := range all {
		r, ok := described[one]
		if !ok {
			r = Resource{Group: one.group, Version: one.version, Resource: one.resource}
		}
		switch known, ok := c.resources[r.Name()]; {
		case one.group == "events.k8s.io" && captured[collection{"", "v1", one.resource}]:
			// the same objects as the core group's
		case !ok, known.Version != preferred[one.group] && one.version == preferred[one.group]:
			c.resources[r.Name()] = r
		}
	}
	return err
}

// resource returns the resource of a path, if its records are imported.
func (c *captureImport) resource(path string) (Resource, bool) {
	found, ok := collectionOf(path)
	if !ok {
		return Resource{}, false
	}
	r, ok := c.resources[Resource{Group: found.group, Resource: found.resource}.Name()]
	return r, ok && r.Version == found.version
}

func (c *captureImport) wants(path string) bool {
	_, ok := c.resource(path)
	return ok
}

// capturedObject has the fields of an object or a list that the import needs.
type capturedObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// add writes the versions of a record.
func (c *captureImport) add(r *captureRecord) error {
	if r.Code >= 300 {
		return nil
	}
	var body capturedObject
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	resource, _ := c.resource(r.Path)
	revision, err := strconv.ParseUint(body.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil // computed objects, such as metrics, have no revisions
	}
	if c.listed[r.Path] == nil {
		c.listed[r.Path] = map[Key]bool{}
	}
	listed := c.listed[r.Path]
	switch r.Event {
	case "ADDED", "MODIFIED":
		key, err := c.put(resource, r, r.Body, body.APIVersion, body.Kind)
		listed[key] = true
		return err
	case "DELETED":
		key := Key{resource.Name(), body.Metadata.Namespace, body.Metadata.Name}
		delete(listed, key)
		return c.remove(key, revision, r.Time)
	case "":
	default:
		return fmt.Errorf("unknown event_type %q", r.Event)
	}
	kind, ok := strings.CutSuffix(body.Kind, "List")
	if !ok || body.Metadata.Name != "" {
		return nil // an object, whose kind may end in List
	}
	found := map[Key]bool{}
	for _, item := range body.Items {
		key, err := c.put(resource, r, item, body.APIVersion, kind)
		if err != nil {
			return err
		}
		found[key] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(listed), compareKeys) {
		if !found[key] {
			if err := c.remove(key, revision, r.Time); err != nil {
				return err
			}
		}
	}
	c.listed[r.Path] = found
	return nil
}

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name))
}

// put writes a version, unless the history already has it. It adds apiVersion and kind, which the
// items in lists of Kubernetes' own kinds lack.
func (c *captureImport) put(resource Resource, r *captureRecord, data json.RawMessage,
	apiVersion, kind string) (Key, error) {
	var object capturedObject
	if err := json.Unmarshal(data, &object); err != nil {
		return Key{}, err
	}
	key := Key{resource.Name(), object.Metadata.Namespace, object.Metadata.Name}
	revision, err := strconv.ParseUint(object.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return Key{}, fmt.Errorf("resourceVersion of %v: %w", key, err)
	}
	if known, _ := c.to.newestOf(key); revision <= known {
		return key, nil
	}
	if object.Kind == "" {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil {
			return Key{}, err
		}
		for name, value := range map[string]string{"apiVersion": apiVersion, "kind": kind} {
			if fields[name], err = json.Marshal(value); err != nil {
				return Key{}, err
			}
		}
		if data, err = json.Marshal(fields); err != nil {
			return Key{}, err
		}
	}
	if !c.secrets {
		if data, err = Redact(data); err != nil {
			return Key{}, err
		}
	}
	if resource.Kind == "" { // the capture has no discovery document
		resource.Kind = cmp.Or(object.Kind, kind)
		resource.Singular, resource.Namespaced = strings.ToLower(resource.Kind), key.Namespace != ""
		c.resources[resource.Name()] = resource
	}
	if err := c.to.Resource(resource); err != nil {
		return Key{}, err
	}
	c.imported.Versions++
	return key, c.to.Put(key, revision, r.Time, data)
}

func (c *captureImport) remove(key Key, revision uint64, when time.Time) error {
	if known, exists := c.to.newestOf(key); !exists || known >= revision {
		return nil
	}
	c.imported.Deletions++
	return c.to.Delete(key, revision, when)
}

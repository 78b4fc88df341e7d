package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"kelson.dev/lab/internal/audit"
)

// Imported describes the result of an import.
type Imported struct {
	// Versions and Deletions were written to the history.
	Versions, Deletions int
	// WithoutObject is the number of writes whose events have no object: the audit policy logs them
	// at a lower level than RequestResponse, or the client has asked for a part of the object.
	WithoutObject int
}

// auditEvent is an Event of audit.k8s.io/v1.
type auditEvent struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	ObjectRef  *struct {
		Resource, Namespace, Name, APIGroup, APIVersion, Subresource string
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject  json.RawMessage `json:"requestObject"`
	ResponseObject json.RawMessage `json:"responseObject"`
	StageTimestamp time.Time       `json:"stageTimestamp"`
}

// auditObject has the fields of an event's object that the import needs.
type auditObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name              string   `json:"name"`
		Namespace         string   `json:"namespace"`
		UID               string   `json:"uid"`
		ResourceVersion   string   `json:"resourceVersion"`
		DeletionTimestamp string   `json:"deletionTimestamp"`
		GracePeriod       int64    `json:"deletionGracePeriodSeconds"`
		Finalizers        []string `json:"finalizers"`
	} `json:"metadata"`
	Details struct { // of a Status
		UID string `json:"uid"`
	} `json:"details"`
	Items []json.RawMessage `json:"items"`
}

// gone reports whether the server had removed the object when it responded.
func (o *auditObject) gone() bool {
	return o.Metadata.DeletionTimestamp != "" && len(o.Metadata.Finalizers) == 0 && o.Metadata.GracePeriod == 0
}

// isForm reports whether the server responded with another form of the object: a Table, or a
// PartialObjectMetadata.
func (o *auditObject) isForm() bool { return strings.HasPrefix(o.APIVersion, "meta.k8s.io/") }

// AuditLog reads Kubernetes' audit log, which has one JSON event per line. It takes objects from
// successful writes and from reads of single objects, if their level is RequestResponse. It keeps
// all versions in memory until Write.
type AuditLog struct {
	imported  Imported
	resources map[string]Resource
	versions  []auditVersion
}

type auditVersion struct {
	key      Key
	uid      string // empty if the log lacks it
	revision uint64 // that of the last version, or 0, if it is unknown, of a deletion
	time     time.Time
	data     []byte // nil: deleted
	// collected means that the object was in the response to a deletecollection, which contains
	// the objects before their deletion.
	collected bool
	deleting  bool // the version waits for finalizers or a grace period
}

// Read adds the events of a log. Several logs can be read in any order.
func (l *AuditLog) Read(r io.Reader) error {
	d := json.NewDecoder(r)
	for n := 1; ; n++ {
		var e auditEvent
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && (e.Kind != "Event" || !strings.HasPrefix(e.APIVersion, "audit.k8s.io/")) {
			err = errors.New("not an event of audit.k8s.io")
		}
		if err == nil {
			err = l.add(&e)
		}
		if err != nil {
			return fmt.Errorf("event %d of the audit log: %w", n, err)
		}
	}
}

func (l *AuditLog) add(e *auditEvent) error {
	if e.Stage != "ResponseComplete" || e.ObjectRef == nil || e.ResponseStatus.Code >= 300 ||
		audit.IsDryRun(e.RequestURI, e.Verb, e.ObjectRef.Subresource, e.RequestObject) {
		return nil
	}
	ref := e.ObjectRef
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	case "get":
		if ref.Subresource != "" && ref.Subresource != "status" || e.ResponseObject == nil {
			return nil
		}
	default:
		return nil
	}
	if e.ResponseObject == nil {
		l.imported.WithoutObject++
		return nil
	}
	var object auditObject
	if err := json.Unmarshal(e.ResponseObject, &object); err != nil {
		return err
	}
	key := Key{Resource: Resource{Group: ref.APIGroup, Resource: ref.Resource}.Name(), Namespace: ref.Namespace,
		Name: ref.Name}
	switch {
	case e.Verb == "deletecollection":
		for _, item := range object.Items {
			var one auditObject
			if err := json.Unmarshal(item, &one); err != nil {
				return err
			}
			if len(one.Metadata.Finalizers) == 0 {
				l.versions = append(l.versions,
					auditVersion{key: Key{key.Resource, one.Metadata.Namespace, one.Metadata.Name},
						uid: one.Metadata.UID, time: e.StageTimestamp, collected: true})
			}
		}
		return nil
	case e.Verb == "delete" && ref.Subresource == "" && (object.Kind == "Status" || object.gone()):
		l.versions = append(l.versions, auditVersion{key: key, uid: cmp.Or(object.Metadata.UID, object.Details.UID),
			time: e.StageTimestamp})
		return nil
	case object.Kind == "Status", object.Kind == "Scale", strings.HasSuffix(object.Kind, "Review"),
		object.Metadata.ResourceVersion == "":
		return nil // responses to bindings, evictions, reviews and scales do not contain the object
	}
	removed := e.Verb != "get" && object.gone()
	if object.isForm() && !removed {
		if e.Verb != "get" {
			l.imported.WithoutObject++
		}
		return nil
	}
	revision, err := strconv.ParseUint(object.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("resourceVersion of %v: %w", key, err)
	}
	key.Namespace, key.Name = object.Metadata.Namespace, object.Metadata.Name
	if l.resources == nil {
		l.resources = map[string]Resource{}
	}
	if !object.isForm() {
		l.resources[key.Resource] = Resource{Group: ref.APIGroup, Version: ref.APIVersion, Resource: ref.Resource,
			Kind: object.Kind, Singular: strings.ToLower(object.Kind), Namespaced: key.Namespace != ""}
	}
	v := auditVersion{key: key, uid: object.Metadata.UID, revision: revision, time: e.StageTimestamp,
		data: bytes.Clone(e.ResponseObject), deleting: object.Metadata.DeletionTimestamp != ""}
	if removed {
		// The last finalizer was removed. The response has the revision of the last version.
		v.data = nil
	}
	l.versions = append(l.versions, v)
	return nil
}

// Write appends all versions to a history, in the order of their revisions. Values of Secrets are
// removed unless secrets is true.
func (l *AuditLog) Write(w *Writer, secrets bool) (Imported, error) {
	l.order()
	for _, r := range l.resources {
		if err := w.Resource(r); err != nil {
			return Imported{}, err
		}
	}
	seen := map[Key]uint64{}
	for _, v := range l.versions {
		if v.revision <= seen[v.key] {
			continue // read again
		}
		seen[v.key] = v.revision
		data, err := v.data, error(nil)
		switch {
		case data == nil:
			if l.resources[v.key.Resource].Resource == "" {
				continue // the log has only deletions of the resource
			}
			l.imported.Deletions++
			err = w.Delete(v.key, v.revision, v.time)
		default:
			if !secrets {
				data, err = Redact(data)
			}
			if err == nil {
				l.imported.Versions++
				err = w.Put(v.key, v.revision, v.time, data)
			}
		}
		if err != nil {
			return Imported{}, err
		}
	}
	return l.imported, w.Flush()
}

// order sorts the versions. The log has no revisions of most deletions: each gets the one after the
// versions before it in time, unless an object of the same name was created earlier than that.
func (l *AuditLog) order() {
	slices.SortStableFunc(l.versions, func(a, b auditVersion) int { return a.time.Compare(b.time) })
	type object struct {
		Key
		uid string
	}
	ends := map[object]bool{} // whether a later event shows how the object was deleted
	newestOf := map[object]uint64{}
	byKey := map[Key][]auditVersion{}
	for i, v := range slices.Backward(l.versions) {
		o := object{v.key, v.uid}
		if v.data != nil {
			newestOf[o] = max(newestOf[o], v.revision)
			byKey[v.key] = append(byKey[v.key], v)
		}
		l.versions[i].collected = v.collected && v.uid != "" && ends[o]
		ends[o] = ends[o] || v.data == nil || v.deleting
	}
	l.versions = slices.DeleteFunc(l.versions, func(v auditVersion) bool { return v.collected })
	newest, seen := uint64(0), map[Key]uint64{}
	for i := range l.versions {
		v := &l.versions[i]
		if v.data == nil && v.revision <= seen[v.key] {
			v.revision = newest + 1
			if known := newestOf[object{v.key, v.uid}]; known > 0 {
				for _, next := range byKey[v.key] {
					if next.uid != v.uid && next.revision > known && next.revision <= v.revision {
						v.revision, v.time = next.revision-1, next.time
					}
				}
			}
		}
		newest, seen[v.key] = max(newest, v.revision), max(seen[v.key], v.revision)
	}
	slices.SortStableFunc(l.versions, func(a, b auditVersion) int { return cmp.Compare(a.revision, b.revision) })
}

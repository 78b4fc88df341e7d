// Package objects serves the console's views of objects of any kind: the list with the columns of
// the server, the object, its Events and logs, and changes if the console may write.
package objects

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/web"
)

// Server serves the requests of the view.
type Server struct {
	Cluster *cluster.Cluster
	// Write permits changes. Without it, they are refused before they reach the cluster.
	Write bool

	documents documents
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.Handle("GET /api/kinds", web.Func(s.kinds))
	mux.HandleFunc("GET /api/table", s.table)
	mux.HandleFunc("GET /api/object", s.object)
	mux.HandleFunc("GET /api/events", s.events)
	mux.Handle("GET /api/field", web.Func(s.field))
	mux.HandleFunc("GET /api/logs", s.logs)
	mux.HandleFunc("GET /api/logs/file", s.logFile)
	mux.Handle("PUT /api/object", web.Func(s.update))
	mux.Handle("DELETE /api/object", web.Func(s.remove))
}

func (s *Server) kinds(*http.Request) (any, error) {
	kinds, err := s.Cluster.Kinds()
	if kinds == nil {
		kinds = []cluster.Kind{}
	}
	return map[string]any{"kinds": kinds}, err
}

// Row is a row of a table.
type Row struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Created   string `json:"created,omitempty"`
	Deleting  bool   `json:"deleting,omitempty"`
	// Cells are values in JSON, with all digits of integers.
	Cells []json.RawMessage `json:"cells"`
}

// Column is a column of a table, as the server describes it.
type Column struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	Priority    int32  `json:"priority,omitempty"`
}

// Rows is an event of the stream of a table. With Columns, it begins a table and replaces all rows.
type Rows struct {
	Columns []Column `json:"columns,omitempty"`
	Set     []Row    `json:"set,omitempty"`
	Gone    []Row    `json:"gone,omitempty"`
	// Complete is true when the list has been sent completely.
	Complete bool `json:"complete,omitempty"`
}

type table struct {
	Columns []Column `json:"columnDefinitions"`
	Rows    []struct {
		Cells  []json.RawMessage            `json:"cells"`
		Object metav1.PartialObjectMetadata `json:"object"`
	} `json:"rows"`
}

func (t *table) rows() []Row {
	rows := make([]Row, 0, len(t.Rows))
	for _, r := range t.Rows {
		row := Row{Namespace: r.Object.Namespace, Name: r.Object.Name, Deleting: r.Object.DeletionTimestamp != nil,
			Cells: r.Cells}
		if !r.Object.CreationTimestamp.IsZero() {
			row.Created = r.Object.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z")
		}
		rows = append(rows, row)
	}
	return rows
}

// maxBatch bounds the rows of one event.
const maxBatch = 500

// table streams the objects of a kind as rows, and their changes.
func (s *Server) table(w http.ResponseWriter, r *http.Request) {
	kind, err := s.Cluster.Kind(r.URL.Query().Get("resource"))
	if err != nil {
		web.Fail(w, err)
		return
	}
	var (
		stream  *web.Stream // nil until the cluster has responded
		pending Rows
	)
	flush := func() error {
		if len(pending.Set) == 0 && len(pending.Gone) == 0 {
			return nil
		}
		rows := pending
		pending = Rows{}
		return stream.Send("rows", rows)
	}
	err = s.Cluster.Follow(r.Context(), cluster.Collection{Kind: kind, Namespace: r.URL.Query().Get("namespace"),
		Accept: cluster.Table}, cluster.Receiver{
		Page: func(list json.RawMessage, first, last bool) error {
			var t table
			if err := json.Unmarshal(list, &t); err != nil {
				return err
			}
			if stream == nil {
				stream = web.NewStream(w)
			}
			rows := Rows{Set: t.rows(), Complete: last}
			if first {
				rows.Columns = t.Columns
			}
			return stream.Send("rows", rows)
		},
		Event: func(kind watch.EventType, object json.RawMessage) error {
			var t table
			if err := json.Unmarshal(object, &t); err != nil {
				return err
			}
			if kind == watch.Deleted {
				for _, row := range t.rows() {
					row.Cells = nil
					pending.Gone = append(pending.Gone, row)
				}
			} else {
				pending.Set = append(pending.Set, t.rows()...)
			}
			// one event must not have the same object in Set and Gone, because these have no order
			if kind == watch.Deleted || len(pending.Set) >= maxBatch {
				return flush()
			}
			return nil
		},
		Idle: func() error { return flush() },
	})
	finish(w, r, stream, err)
}

// finish reports the error that ended a stream.
func finish(w http.ResponseWriter, r *http.Request, stream *web.Stream, err error) {
	switch {
	case r.Context().Err() != nil:
	case stream == nil:
		web.Fail(w, err)
	case err != nil:
		_ = stream.Send("failure", web.AsError(err))
	}
}

// object streams one object: events named object with its JSON, and an event named gone after its
// deletion.
func (s *Server) object(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	kind, err := s.Cluster.Kind(q.Get("resource"))
	if err != nil {
		web.Fail(w, err)
		return
	}
	name := q.Get("name")
	var stream *web.Stream
	send := func(event string, object any) error {
		if stream == nil {
			stream = web.NewStream(w)
		}
		return stream.Send(event, object)
	}
	collection := cluster.Collection{Kind: kind, Namespace: q.Get("namespace"),
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	err = s.Cluster.Follow(r.Context(), collection, cluster.Receiver{
		Page: func(list json.RawMessage, _, last bool) error {
			var l struct {
				APIVersion string            `json:"apiVersion"`
				Items      []json.RawMessage `json:"items"`
			}
			if err := json.Unmarshal(list, &l); err != nil {
				return err
			}
			if len(l.Items) == 0 && last {
				return send("gone", struct{}{})
			}
			for _, item := range l.Items {
				object, err := withKind(item, l.APIVersion, kind.Kind)
				if err != nil {
					return err
				}
				if err := send("object", object); err != nil {
					return err
				}
			}
			return nil
		},
		Event: func(t watch.EventType, object json.RawMessage) error {
			if t == watch.Deleted {
				return send("gone", object)
			}
			return send("object", object)
		},
	})
	if apierrors.IsForbidden(err) && stream == nil {
		// The user may have the right to get the object. The page repeats the request when the
		// stream ends.
		var object json.RawMessage
		if s.Cluster.Get(r.Context(), cluster.Request{Path: kind.Path(q.Get("namespace"), name)}, &object) == nil {
			_ = send("object", object)
			return
		}
	}
	finish(w, r, stream, err)
}

// withKind adds apiVersion and kind, which items of lists of built-in kinds lack.
func withKind(item json.RawMessage, apiVersion, kind string) (any, error) {
	object := map[string]json.RawMessage{} // keeps all digits of integers
	if err := json.Unmarshal(item, &object); err != nil {
		return nil, err
	}
	if object["kind"] == nil {
		object["apiVersion"], object["kind"] = json.RawMessage(quote(apiVersion)), json.RawMessage(quote(kind))
	}
	return object, nil
}

// Event is a Kubernetes Event.
type Event struct {
	UID     string `json:"uid"`
	Time    string `json:"time"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	From    string `json:"from,omitempty"`
	Count   int    `json:"count,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Object  string `json:"object,omitempty"` // namespace/name
}

// decodeEvent reads an Event of core/v1.
func decodeEvent(data []byte) (Event, error) {
	var e struct {
		Metadata           metav1.ObjectMeta
		Type               string
		Reason             string
		Message            string
		Count              int
		LastTimestamp      metav1.Time
		EventTime          metav1.MicroTime
		ReportingComponent string
		Source             struct{ Component string }
		Series             struct{ Count int }
		InvolvedObject     struct{ Kind, Namespace, Name string }
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return Event{}, err
	}
	when := e.LastTimestamp.Time
	if when.IsZero() {
		when = e.EventTime.Time
	}
	if when.IsZero() {
		when = e.Metadata.CreationTimestamp.Time
	}
	from := e.ReportingComponent
	if from == "" {
		from = e.Source.Component
	}
	object := e.InvolvedObject.Name
	if e.InvolvedObject.Namespace != "" {
		object = e.InvolvedObject.Namespace + "/" + object
	}
	return Event{
		UID: string(e.Metadata.UID), Time: when.UTC().Format("2006-01-02T15:04:05.000Z"), Type: e.Type,
		Reason: e.Reason, Message: e.Message,
		From: from, Count: max(e.Count, e.Series.Count), Kind: e.InvolvedObject.Kind, Object: object,
	}, nil
}

var eventKind = cluster.Kind{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true,
	Verbs: []string{"list", "watch"}}

// events streams the Events about an object, with the newest state of each.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var stream *web.Stream
	send := func(objects ...json.RawMessage) error {
		if stream == nil {
			stream = web.NewStream(w)
		}
		events := []Event{}
		for _, o := range objects {
			e, err := decodeEvent(o)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		return stream.Send("events", events)
	}
	selector := fields.OneTermEqualSelector("involvedObject.uid", q.Get("uid")).String()
	err := s.Cluster.Follow(r.Context(), cluster.Collection{Kind: eventKind, Namespace: q.Get("namespace"),
		FieldSelector: selector}, cluster.Receiver{
		Page: func(list json.RawMessage, _, _ bool) error {
			var l struct{ Items []json.RawMessage }
			if err := json.Unmarshal(list, &l); err != nil {
				return err
			}
			return send(l.Items...)
		},
		Event: func(t watch.EventType, object json.RawMessage) error {
			if t == watch.Deleted {
				return nil // it has expired; the page keeps it
			}
			return send(object)
		},
	})
	finish(w, r, stream, err)
}

func quote(s string) string {
	data, _ := json.Marshal(s) // strings can always be encoded
	return string(data)
}

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Collection names objects to list and watch.
type Collection struct {
	Kind          Kind
	Namespace     string // empty: all
	FieldSelector string
	LabelSelector string
	Accept        string // media type
}

// pageSize bounds the objects of a list request, so that the first ones are shown early and a large
// list is never in memory as a whole.
const pageSize = 500

// Receiver is called by Follow, from one goroutine. If a method returns an error, Follow returns
// it.
type Receiver struct {
	// Page receives a page of the list. first is true for the first page of each list, which
	// replaces everything that was received before.
	Page func(list json.RawMessage, first, last bool) error
	// Event receives a change. Bookmarks and errors are not passed on.
	Event func(t watch.EventType, object json.RawMessage) error
	// Idle is called when no event is waiting to be read. It may be nil.
	Idle func() error
}

// Follow lists a collection and then watches it until ctx ends or the server refuses it. It lists
// again when the server no longer has the events that it needs.
func (c *Cluster) Follow(ctx context.Context, col Collection, to Receiver) error {
	for {
		version, err := c.list(ctx, col, to)
		if err != nil {
			return err
		}
		if !col.Kind.Can("watch") {
			<-ctx.Done()
			return ctx.Err()
		}
		for err == nil {
			version, err = c.watch(ctx, col, version, to)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
	}
}

func (col Collection) query() url.Values {
	q := url.Values{}
	if col.FieldSelector != "" {
		q.Set("fieldSelector", col.FieldSelector)
	}
	if col.LabelSelector != "" {
		q.Set("labelSelector", col.LabelSelector)
	}
	return q
}

func (c *Cluster) list(ctx context.Context, col Collection, to Receiver) (version string, err error) {
	query := col.query()
	query.Set("limit", strconv.Itoa(pageSize))
	for first := true; ; first = false {
		var data json.RawMessage
		err := c.Get(ctx, Request{Path: col.Kind.Path(col.Namespace, ""), Query: query, Accept: col.Accept}, &data)
		if err != nil {
			return "", err
		}
		var list struct {
			Metadata metav1.ListMeta `json:"metadata"`
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return "", err
		}
		if err := to.Page(data, first, list.Metadata.Continue == ""); err != nil {
			return "", err
		}
		if list.Metadata.Continue == "" {
			return list.Metadata.ResourceVersion, nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
}

// retryPause is the time between two watches, so that a server that ends them immediately isn't
// flooded.
const retryPause = 200 * time.Millisecond

// watch reads one watch to its end and returns the version from which to continue.
func (c *Cluster) watch(ctx context.Context, col Collection, version string, to Receiver) (string, error) {
	query := col.query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", version)
	resp, err := c.Do(ctx, Request{Path: col.Kind.Path(col.Namespace, ""), Query: query, Accept: col.Accept})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	decoder := json.NewDecoder(resp.Body)
	for {
		var event struct {
			Type   watch.EventType `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&event); err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				return "", err
			}
			// the server ended the watch, or the connection broke: continue after a pause
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(retryPause):
			}
			return version, nil
		}
		if event.Type == watch.Error {
			status := metav1.Status{}
			if err := json.Unmarshal(event.Object, &status); err != nil {
				return "", err
			}
			return "", &apierrors.StatusError{ErrStatus: status}
		}
		var object struct {
			Metadata metav1.ListMeta `json:"metadata"` // of a Table, or of an object
			Rows     []struct {
				Object metav1.PartialObjectMetadata `json:"object"`
			} `json:"rows"`
		}
		if err := json.Unmarshal(event.Object, &object); err != nil {
			return "", err
		}
		newest := object.Metadata.ResourceVersion
		if newest == "" && len(object.Rows) > 0 {
			newest = object.Rows[len(object.Rows)-1].Object.ResourceVersion
		}
		if newest != "" {
			version = newest
		}
		if event.Type == watch.Bookmark {
			continue
		}
		if err := to.Event(event.Type, event.Object); err != nil {
			return "", err
		}
		if to.Idle != nil && idle(decoder) {
			if err := to.Idle(); err != nil {
				return "", err
			}
		}
	}
}

// idle reports whether the decoder has no more than white space buffered.
func idle(d *json.Decoder) bool {
	rest, err := io.ReadAll(d.Buffered())
	if err != nil {
		return true
	}
	for _, b := range rest {
		if b != '\n' && b != ' ' {
			return false
		}
	}
	return true
}

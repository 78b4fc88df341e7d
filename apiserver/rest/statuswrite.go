package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// serverManager owns the fields that UpdateStatus changes, with and without a loopback. It is also
// the user agent of the loopback's requests, from which the name of the field manager follows.
// kube-apiserver's own writes of these fields have the same manager.
const serverManager = "kube-apiserver"

// UpdateStatus changes the status and the metadata of an object as the server itself, with a PUT of
// the subresource "status" through the whole pipeline, and returns the written state. Like Update,
// it repeats change on the newest state after a conflict. Without Config.Loopback, it is an Update
// with the strategy of the subresource. Both make serverManager the owner of the changed fields.
func (h *Handler) UpdateStatus(ctx context.Context, res *resource.Resource, namespace, name string, dryRun bool,
	change func(hub runtime.Object) error,
) (runtime.Object, error) {
	if h.loopback == nil {
		sub, ok := res.Subresource("status")
		if !ok || sub.Update == nil {
			return nil, fmt.Errorf("update status of %s: no such subresource", res.GroupResource())
		}
		return h.Update(ctx, res, namespace, name, sub.Update.Strategy, dryRun, func(hub runtime.Object) error {
			old := hub.DeepCopyObject()
			if err := change(hub); err != nil {
				return err
			}
			return res.Own(old, hub, storedOrServed(res), "status", serverManager)
		})
	}
	for {
		read := h.store.Snapshot().Get(res.Key(namespace, name))
		if read == nil {
			return nil, apierrors.NewNotFound(res.GroupResource(), name)
		}
		hub, err := h.putStatus(ctx, res, read, dryRun, change)
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			return hub, err
		}
		if now := h.store.Snapshot().Get(read.Key); now != nil && now.Revision == read.Revision {
			return nil, err // the conflict has another cause
		}
	}
}

// putStatus sends the PUT for one state of the object.
func (h *Handler) putStatus(ctx context.Context, res *resource.Resource, read *store.Object, dryRun bool,
	change func(hub runtime.Object) error) (runtime.Object, error) {
	hub, err := res.Codec.Load(read.Data)
	if err != nil {
		return nil, err
	}
	if err := change(hub); err != nil {
		return nil, err
	}
	version := storedOrServed(res)
	obj, err := res.Codec.ToVersion(hub, version)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	path := "/api/" + version
	if res.Group != "" {
		path = "/apis/" + res.Group + "/" + version
	}
	if read.Key.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(read.Key.Namespace)
	}
	path += "/" + res.Plural + "/" + url.PathEscape(read.Key.Name) + "/status"
	if dryRun {
		path += "?dryRun=All"
	}
	answer, err := inprocess.Call{Method: http.MethodPut, Path: path, Body: body, UserAgent: serverManager}.Open(ctx,
		h.loopback)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	data, err := io.ReadAll(answer)
	if err != nil {
		return nil, err
	}
	return res.Codec.Load(data)
}

// storedOrServed returns the storage version if it is served, and the preferred version otherwise.
func storedOrServed(res *resource.Resource) string {
	if _, served := res.Serves(res.StorageVersion); !served && len(res.Versions) > 0 {
		return res.Versions[0].Name
	}
	return res.StorageVersion
}

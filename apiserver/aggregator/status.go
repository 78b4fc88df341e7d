package aggregator

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/store"
)

// report writes the condition Available of an APIService, unless it has it already or was replaced
// by another object.
func (a *Aggregator) report(ctx context.Context, name string, uid types.UID, now condition) {
	obj := a.cfg.Store.Snapshot().Get(store.Key{Resource: Resource, Name: name})
	if obj == nil || obj.Head.UID != uid {
		return
	}
	service, err := decode(obj)
	if err != nil {
		return // Run has logged it
	}
	was := service.availability()
	now.LastTransitionTime = was.LastTransitionTime
	if was.Status != now.Status || was.LastTransitionTime.IsZero() {
		now.LastTransitionTime = metav1.NewTime(time.Now())
	}
	if was.Status == now.Status && was.Reason == now.Reason && was.Message == now.Message {
		return
	}
	conditions, found := service.Status.Conditions, false
	for i := range conditions {
		if conditions[i].Type == available {
			conditions[i], found = now, true
		}
	}
	if !found {
		conditions = append(conditions, now)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": service.Metadata.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return // the condition consists of strings
	}
	err = a.write(ctx, http.MethodPatch, collection+"/"+name+"/status", patch)
	switch {
	case ctx.Err() != nil || err != nil && a.ignoreOvertaken(name, obj, err) == nil:
		// a later check sees the change
	case err != nil:
		a.cfg.Log.Warn("write status of APIService", "apiservice", name, "err", err)
	default:
		if was.Status != now.Status {
			a.cfg.Log.Info("availability of APIService changed", "apiservice", name, "status", now.Status, "reason",
				now.Reason, "message", now.Message)
		}
		if was.Status == isTrue && now.Status != isTrue {
			a.counts.add(name, now.Reason)
		}
	}
}

// write sends a request to this server.
func (a *Aggregator) write(ctx context.Context, method, path string, body []byte) error {
	// The user agent becomes the manager of the fields.
	call := inprocess.Call{Method: method, Path: path, Body: body, UserAgent: "kube-apiserver"}
	if method == http.MethodPatch {
		call.ContentType = string(types.MergePatchType)
	}
	_, err := call.Do(ctx, a.cfg.Client)
	return err
}

// ignoreOvertaken returns nil for the error of a write that came too late, because the event of the
// other write leads to a new attempt. read is the state on which the write was based; nil for a
// create. If the store still has this state, the error has another cause, such as admission, and is
// returned.
func (a *Aggregator) ignoreOvertaken(name string, read *store.Object, err error) error {
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		return err
	}
	now := a.cfg.Store.Snapshot().Get(store.Key{Resource: Resource, Name: name})
	if (now == nil) != (read == nil) || now != nil && now.Revision != read.Revision {
		return nil
	}
	return err
}

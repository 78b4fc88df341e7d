package events

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// write creates an event, or increments the count of the event that it repeats.
func (b *Broadcaster) write(ctx context.Context, e *corev1.Event) {
	repeats, ok := b.filter.judge(e)
	if !ok {
		return
	}
	if repeats.name != "" {
		earlier := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: repeats.name}}
		err := b.cfg.Client.Patch(ctx, earlier, again(e, repeats.count+1))
		if err == nil {
			repeats.count++
			return
		}
		if !apierrors.IsNotFound(err) { // events expire; create a new one
			b.failed(e, err)
			return
		}
	}
	if err := b.cfg.Client.Create(ctx, e); err != nil {
		*repeats = repeated{}
		b.failed(e, err)
		return
	}
	*repeats = repeated{name: e.Name, count: 1}
}

func (b *Broadcaster) failed(e *corev1.Event, err error) {
	b.cfg.Log.Warn("write event", "reason", e.Reason, "object", e.InvolvedObject.Name, "message", e.Message, "err", err)
}

// again returns the patch that repeats an event.
func again(e *corev1.Event, count int32) client.Patch {
	data, err := json.Marshal(map[string]any{"count": count, "lastTimestamp": e.LastTimestamp, "message": e.Message})
	if err != nil {
		panic(err) // unreachable: strings, numbers and times can be encoded
	}
	return client.RawPatch(types.MergePatchType, data)
}

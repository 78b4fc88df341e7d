package scheduler

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"

	"kelson.dev/apiserver/bounded"
	"kelson.dev/apiserver/resource"
	"kelson.dev/kubernetes/identity"
)

// build creates upstream's scheduler and its informers. The caller must start the informers. Parts
// of the scheduler run until ctx ends.
func build(ctx context.Context, cfg Config) (*scheduler.Scheduler, *factory, error) {
	config := rest.CopyConfig(cfg.REST)
	config.ContentType, config.AcceptContentTypes = resource.MediaProtobuf,
		resource.MediaProtobuf+","+resource.MediaJSON
	config.UserAgent = identity.UserAgent(identity.SchedulerProgram, "scheduler")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("create client: %w", err)
	}
	caches := &factory{SharedInformerFactory: informers.NewSharedInformerFactory(client, 0),
		informers: map[cache.SharedIndexInformer]bool{}}
	caches.withoutUnserved(cfg)
	caches.share(cfg.Shared)
	broadcaster := events.NewBroadcaster(&sink{events.EventSinkImpl{Interface: client.EventsV1()}})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, nil, fmt.Errorf("record events: %w", err)
	}
	context.AfterFunc(ctx, broadcaster.Shutdown)
	recorders := func(name string) events.EventRecorderLogger {
		return broadcaster.NewRecorder(clientscheme.Scheme, name)
	}
	c := cfg.Settings.config
	sched, err := scheduler.New(ctx, client, caches, nil, recorders,
		scheduler.WithComponentConfigVersion(c.APIVersion),
		scheduler.WithKubeConfig(config),
		scheduler.WithProfiles(c.DeepCopy().Profiles...), // New completes them in place
		scheduler.WithPercentageOfNodesToScore(c.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(c.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(c.PodMaxBackoffSeconds),
		scheduler.WithExtenders(c.Extenders...),
		scheduler.WithParallelism(c.Parallelism),
	)
	if err != nil {
		return nil, nil, err
	}
	for _, extender := range sched.Extenders {
		if err := bounded.Inside(maxExtenderResponse, extender, "client"); err != nil {
			return nil, nil, err
		}
	}
	return sched, caches, nil
}

// maxExtenderResponse is the maximum size of an extender's response in bytes. It may contain the
// Node objects of a whole cluster.
const maxExtenderResponse = 64 << 20

// The first call of signal.Notify in a process starts a goroutine that never ends. Upstream's
// scheduler calls it for its cache debugger; if that happened first in a testing/synctest bubble,
// the bubble could not end. So the goroutine is started here, and the signal keeps its default
// action.
func init() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
}

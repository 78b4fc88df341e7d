package migrate

import "strings"

// rule is the verdict about a name.
type rule struct {
	verdict Verdict
	advice  string
}

const adapterPath = "kelson.dev/operator/adapter"

// programRules are about moving the whole program. Names without a rule move unchanged.
var programRules = map[string]rule{
	"ctrl.NewManager": {Change, "adapter.NewManager, import " + adapterPath},
	"manager.New":     {Change, "adapter.NewManager, import " + adapterPath},
	"cluster.New":     {Change, "add adapter.ClusterOption to the options, import " + adapterPath},
	"cache.New":       {Change, "adapter.NewCache, import " + adapterPath},

	"manager.Options.NewCache":  {Change, "remove it, or create the cache with adapter.NewCache: the manager uses what the function returns"},
	"manager.Options.NewClient": {Change, "remove it, or create the client with adapter.NewClient: the manager uses what the function returns"},
	"cluster.Options.NewCache":  {Change, "create the cache with adapter.NewCache"},
	"cluster.Options.NewClient": {Change, "create the client with adapter.NewClient"},

	"cache.Options.NewInformer": {Stays,
		"has no effect and logs a warning: the informers are the library's"},
	"cache.Options.DefaultEnableWatchBookmarks": {Stays, "has no effect: watches always accept bookmarks"},
	"cache.ByObject.EnableWatchBookmarks":       {Stays, "has no effect: watches always accept bookmarks"},
	"cache.Config.EnableWatchBookmarks":         {Stays, "has no effect: watches always accept bookmarks"},
	"client.CacheOptions.EnableReadYourWritesConsistency": {Stays,
		"has no effect: reads always see own writes; remove it"},
	"client.DisableReadYourWritesConsistency": {Stays,
		"has no effect: reads always see own writes; remove it"},
}

// libraryRules are about moving a reconciler to the library's manager. The verdict Moves means that
// the builder or client of package adapter has the name; the advice is the library's equivalent.
var libraryRules = map[string]rule{
	"ctrl.NewControllerManagedBy": {Change,
		"adapter.NewControllerManagedBy(m), with m a *manager.Manager; or operator.For"},
	"builder.ControllerManagedBy": {Change,
		"adapter.NewControllerManagedBy(m), with m a *manager.Manager; or operator.For"},
	"builder.Builder.For":             {Moves, "operator.For"},
	"builder.Builder.Owns":            {Moves, "operator.Owns"},
	"builder.Builder.Watches":         {Moves, "operator.Watches"},
	"builder.Builder.Named":           {Moves, "operator.Named"},
	"builder.Builder.WithEventFilter": {Moves, "operator.FilterAll"},
	"builder.Builder.WithOptions": {Moves,
		"operator.Concurrency, operator.Timeout, operator.Backoff, operator.OnEveryReplica"},
	"builder.Builder.Complete":         {Moves, "operator.For returns an option for operator.Main"},
	"builder.Builder.WatchesRawSource": {Moves, "operator.From with a controller.Source"},
	"builder.Builder.WatchesMetadata":  {Moves, "operator.WatchesKind with metav1.PartialObjectMetadata"},
	"builder.Builder.Build": {Moves,
		"it returns a *controller.Controller; or manager.Manager.NewController"},
	"builder.Builder.WithLogConstructor": {Moves, "operator.Log has the controller, namespace and name"},
	"builder.WithPredicates": {Change,
		"adapter.WithPredicates; or operator.Filter and arguments of operator.Owns and operator.Watches"},
	"builder.OnlyMetadata": {Change,
		"adapter.OnlyMetadata; or operator.OwnsKind and operator.WatchesKind with metav1.PartialObjectMetadata"},
	"builder.MatchEveryOwner": {Change, "adapter.MatchEveryOwner; or operator.MatchEveryOwner"},
	"client.SubResourceWriter.Update": {Moves,
		"with operator.For: change the status and return; the library writes it"},
	"client.SubResourceWriter.Patch": {Moves,
		"with operator.For: change the status and return; the library writes it"},
	"client.StatusClient.Status": {Moves,
		"with operator.For: change the status and return; the library writes it"},
	"cacheapi.FieldIndexer.IndexField": {Change,
		"operator.Index and client.MatchingIndex; field selectors work without an index"},
	"cluster.Cluster.GetFieldIndexer": {Change,
		"operator.Index and client.MatchingIndex; field selectors work without an index"},
	"cluster.Cluster.GetClient":    {Change, "adapter.Client(m); or operator.Deps.Client"},
	"cluster.Cluster.GetAPIReader": {Change, "adapter.APIReader(m); or operator.Deps.Live"},
	"cluster.Cluster.GetScheme":    {Change, "adapter.Client(m).Scheme()"},
	"cluster.Cluster.GetCache":     {Change, "manager.Manager.Informers"},
	"cluster.Cluster.GetConfig": {Change,
		"operator.Deps.Cluster, which has the rest.Config and the HTTP client"},
	"cluster.Cluster.GetRESTMapper":         {Change, "adapter.Client(m).RESTMapper()"},
	"recorder.Provider.GetEventRecorderFor": {Change, "manager.Manager.Recorder; or operator.Deps.Events"},
	"recorder.Provider.GetEventRecorder":    {Change, "manager.Manager.Recorder; or operator.Deps.Events"},
	"manager.Manager.Add": {Change,
		"manager.Manager.Add, with a manager.Runnable; or operator.Background"},
	"ctrl.NewWebhookManagedBy":              {Change, "operator.Webhook; the paths are the same"},
	"builder.WebhookManagedBy":              {Change, "operator.Webhook; the paths are the same"},
	"controllerutil.AddFinalizer":           {Moves, "with operator.For: a method Finalize"},
	"controllerutil.RemoveFinalizer":        {Moves, "with operator.For: a method Finalize"},
	"controllerutil.ContainsFinalizer":      {Moves, "with operator.For: a method Finalize"},
	"controllerutil.CreateOrUpdate":         {Moves, "operator.CreateOrUpdate, or operator.Apply"},
	"controllerutil.CreateOrPatch":          {Moves, "operator.CreateOrUpdate, or operator.Apply"},
	"controllerutil.SetControllerReference": {Moves, "operator.Apply sets it"},
	"reconcile.Result.Requeue":              {Moves, "an error"},
	"reconcile.Result.RequeueAfter":         {Moves, "operator.After"},
	"reconcile.Result.Priority": {Stays,
		"the library's queue has no priorities of requests; waiting ones age"},
	"reconcile.TerminalError":                   {Moves, "operator.Terminal, operator.Invalid"},
	"handler.EnqueueRequestsFromMapFunc":        {Moves, "controller.EnqueueMapped, operator.Watches"},
	"handler.EnqueueRequestForOwner":            {Moves, "controller.EnqueueOwner"},
	"handler.EnqueueRequestForObject":           {Moves, "controller.EnqueueObject"},
	"predicate.GenerationChangedPredicate":      {Moves, "operator.GenerationChanged"},
	"predicate.ResourceVersionChangedPredicate": {Moves, "controller.ResourceVersionChanged"},
	"predicate.LabelChangedPredicate":           {Moves, "controller.LabelsChanged"},
	"predicate.AnnotationChangedPredicate":      {Moves, "controller.AnnotationsChanged"},
	"source.Kind":                               {Change, "controller.Kind"},
	"source.Channel":                            {Moves, "controller.Channel"},
	"source.Func":                               {Moves, "controller.SourceFunc"},
	"controller.New":                            {Change, "manager.Manager.NewController"},
	"controller.NewUnmanaged":                   {Change, "controller.New"},
	"controller.Options.NewQueue":               {Stays, "the library's queue can't be replaced"},
	"controller.Options.UsePriorityQueue": {Stays,
		"the library's queue always serves changed objects before initial ones"},
	"controller.Options.LogConstructor": {Stays,
		"loggers come from operator.Log and have the controller, namespace and name"},
	"controller.Options.RecoverPanic": {Stays, "panics are always recovered"},
	"controller.Options.EnableWarmup": {Stays,
		"replicas that are not the leader always keep their caches up to date"},
	"priorityqueue.New": {Stays, "the library's queue can't be replaced"},
}

// redundantRequeue is about Requeue in a Result with RequeueAfter, which takes precedence in
// controller-runtime.
var redundantRequeue = rule{Moves, "remove it: RequeueAfter decides"}

const runtimePath = "sigs.k8s.io/controller-runtime"

// isClientGoInformer reports whether a name creates informers of client-go.
func isClientGoInformer(path, name string) bool {
	switch {
	case strings.HasPrefix(path, "k8s.io/client-go/informers"),
		strings.HasPrefix(path, "k8s.io/client-go/dynamic/dynamicinformer"),
		strings.HasPrefix(path, "k8s.io/client-go/metadata/metadatainformer"):
		return strings.HasPrefix(name, "New")
	case path == "k8s.io/client-go/tools/cache":
		return strings.HasPrefix(name, "New") && strings.HasSuffix(strings.TrimSuffix(name, "WithOptions"), "Informer")
	}
	return false
}

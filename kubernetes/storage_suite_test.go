package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	suite "k8s.io/apiserver/pkg/storage/testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme)
}()

const prefix = "test!"

func newAdapter(t *testing.T) *adapter {
	st := storetest.New(t, store.Config{})
	return &adapter{store: st, codec: apitesting.TestCodec(codecs, examplev1.SchemeGroupVersion),
		transformer: suite.NewPrefixTransformer([]byte(prefix), false)}
}

// storedWithoutVersion checks the stored bytes.
func (a *adapter) storedWithoutVersion(_ context.Context, t *testing.T, key string) {
	at, err := place(key, false)
	require.NoError(t, err)
	obj := a.store.Snapshot().Get(at)
	if obj == nil {
		t.Fatalf("%s is not stored", key)
	}
	var e envelope
	require.NoError(t, json.Unmarshal(obj.Data, &e))
	data, err := base64.StdEncoding.DecodeString(e.Value)
	require.NoError(t, err)
	decoded, err := runtime.Decode(a.codec, bytes.TrimPrefix(data, []byte(prefix)))
	require.NoError(t, err)
	pod := decoded.(*example.Pod)
	assert.Equalf(t, pod.ResourceVersion, "", "%s is stored with the resourceVersion", key)
}

func (a *adapter) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	revision, err := a.ParseResourceVersion(resourceVersion)
	require.NoError(t, err)
	require.NoError(t, a.store.Compact(revision))
	a.increaseRV(ctx, t) // in etcd, a write is needed to record the compaction
}

// increaseRV writes an object of another resource.
func (a *adapter) increaseRV(ctx context.Context, t *testing.T) int64 {
	op := store.Op{Key: store.Key{Resource: "others", Name: "o"}, Data: []byte(`{"metadata":{}}`),
		Expect: store.AnyRevision}
	written, err := a.store.Commit(ctx, op)
	require.NoError(t, err)
	return int64(written[0].Revision)
}

// reads counts etcd requests per page of a list in upstream's suite; here it counts nothing.
func reads(*testing.T, uint64, uint64) {}

// These functions of the suite are omitted: those about deleting objects in etcd that can't be
// decoded (DeleteWithConflictAndMissingExpectedTransformOrDecodeError,
// DeleteExpectedTransformOrDecodeError,
// DeleteWithSuggestionAndMissingExpectedTransformOrDecodeError, GetListWithErrorAggregation,
// WatchWithUnsafeDelete: an alpha feature of kube-apiserver), and two optional ones about
// bookmarks, which package rest creates (OptionalTestProgressNotify,
// OptionalWatchBookmarksWithCorrectResourceVersion).
func TestUpstreamSuite(t *testing.T) {
	plain := func(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T,
		*adapter) {
		return func(ctx context.Context, t *testing.T, a *adapter) { run(ctx, t, a) }
	}
	transforming := func(run func(context.Context, *testing.T, suite.InterfaceWithPrefixTransformer)) func(
		context.Context, *testing.T, *adapter) {
		return func(ctx context.Context, t *testing.T, a *adapter) { run(ctx, t, a) }
	}
	for name, run := range map[string]func(context.Context, *testing.T, *adapter){
		"Create": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestCreate(ctx, t, a, a.storedWithoutVersion)
		},

		"CreateWithTTL":                              plain(suite.RunTestCreateWithTTL),
		"CreateWithKeyExist":                         plain(suite.RunTestCreateWithKeyExist),
		"Get":                                        plain(suite.RunTestGet),
		"UnconditionalDelete":                        plain(suite.RunTestUnconditionalDelete),
		"ConditionalDelete":                          plain(suite.RunTestConditionalDelete),
		"DeleteWithSuggestion":                       plain(suite.RunTestDeleteWithSuggestion),
		"DeleteWithSuggestionAndConflict":            plain(suite.RunTestDeleteWithSuggestionAndConflict),
		"DeleteWithConflict":                         plain(suite.RunTestDeleteWithConflict),
		"DeleteWithSuggestionOfDeletedObject":        plain(suite.RunTestDeleteWithSuggestionOfDeletedObject),
		"ValidateDeletionWithSuggestion":             plain(suite.RunTestValidateDeletionWithSuggestion),
		"ValidateDeletionWithOnlySuggestionValid":    plain(suite.RunTestValidateDeletionWithOnlySuggestionValid),
		"PreconditionalDeleteWithSuggestion":         plain(suite.RunTestPreconditionalDeleteWithSuggestion),
		"PreconditionalDeleteWithOnlySuggestionPass": plain(suite.RunTestPreconditionalDeleteWithOnlySuggestionPass),
		"ListPaging":                                 plain(suite.RunTestListPaging),
		"GetListRecursivePrefix":                     plain(suite.RunTestGetListRecursivePrefix),
		"NamespaceScopedList":                        plain(suite.RunTestNamespaceScopedList),
		"KeySchema":                                  plain(suite.RunTestKeySchema),
		"GuaranteedUpdateWithTTL":                    plain(suite.RunTestGuaranteedUpdateWithTTL),
		"GuaranteedUpdateWithConflict":               plain(suite.RunTestGuaranteedUpdateWithConflict),
		"GuaranteedUpdateWithSuggestionAndConflict":  plain(suite.RunTestGuaranteedUpdateWithSuggestionAndConflict),
		"GuaranteedUpdateChecksStoredData":           transforming(suite.RunTestGuaranteedUpdateChecksStoredData),
		"TransformationFailure":                      transforming(suite.RunTestTransformationFailure),
		"ListResourceVersionMatch":                   transforming(suite.RunTestListResourceVersionMatch),
		"GuaranteedUpdate": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestGuaranteedUpdate(ctx, t, a, a.storedWithoutVersion)
		},
		"List": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestList(ctx, t, a, a.compact, false, nil)
		},
		"GetListNonRecursive": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestGetListNonRecursive(ctx, t, a.increaseRV, a)
		},
		"ConsistentList": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestConsistentList(ctx, t, a, a.increaseRV, false, true, false)
		},
		"ListContinuation": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestListContinuation(ctx, t, a, reads)
		},
		"ListPaginationRareObject": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestListPaginationRareObject(ctx, t, a, reads)
		},
		"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestListContinuationWithFilter(ctx, t, a, reads)
		},
		"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestListInconsistentContinuation(ctx, t, a, a.compact)
		},
		"GetListWithoutErrorAggregation": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestGetListWithoutErrorAggregation(ctx, t, a, errors.New("bits flipped"))
		},
		"CompactRevision": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestCompactRevision(ctx, t, a, a.increaseRV, a.compact)
		},
		"Stats": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestStats(ctx, t, a, a.codec, a.transform(), false)
		},
		"StatsWithSizes": func(ctx context.Context, t *testing.T, a *adapter) {
			a.EnableResourceSizeEstimation(nil)
			suite.RunTestStats(ctx, t, a, a.codec, a.transform(), true)
		},

		"Watch":                                  plain(suite.RunTestWatch),
		"ClusterScopedWatch":                     plain(suite.RunTestClusterScopedWatch),
		"NamespaceScopedWatch":                   plain(suite.RunTestNamespaceScopedWatch),
		"DeleteTriggerWatch":                     plain(suite.RunTestDeleteTriggerWatch),
		"WatchFromNonZero":                       plain(suite.RunTestWatchFromNonZero),
		"DelayedWatchDelivery":                   plain(suite.RunTestDelayedWatchDelivery),
		"WatchContextCancel":                     plain(suite.RunTestWatchContextCancel),
		"WatcherTimeout":                         plain(suite.RunTestWatcherTimeout),
		"WatchDeleteEventObjectHaveLatestRV":     plain(suite.RunTestWatchDeleteEventObjectHaveLatestRV),
		"WatchInitializationSignal":              plain(suite.RunTestWatchInitializationSignal),
		"SendInitialEventsBackwardCompatibility": plain(suite.RunSendInitialEventsBackwardCompatibility),
		"WatchSemantics":                         plain(suite.RunWatchSemantics),
		"WatchSemanticInitialEventsExtended":     plain(suite.RunWatchSemanticInitialEventsExtended),
		"WatchListMatchSingle":                   plain(suite.RunWatchListMatchSingle),
		"WatchError":                             transforming(suite.RunTestWatchError),
		"WatchErrorIsBlockingFurtherEvents":      transforming(suite.RunWatchErrorIsBlockingFurtherEvents),
		"WatchFromZero": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestWatchFromZero(ctx, t, a, a.compact)
		},
		"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, a *adapter) {
			suite.RunTestWatchDispatchBookmarkEvents(ctx, t, a, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "WatchDispatchBookmarkEvents" && testing.Short() {
				t.Skip("takes six seconds")
			}
			run(t.Context(), t, newAdapter(t))
		})
	}
}

package main

const (
	inBubble  = "runs in a bubble, in which another function calls it"
	expiry    = "expects that the time runs out: the machine's speed does not matter"
	slowPart  = "is the delay of a simulated client or server: no check depends on its length"
	moreTime  = "gives another process or goroutine time to do what it must not do, or to be in a certain state: less time finds fewer faults"
	soaks     = "runs for a given time"
	oneTry    = "limits one attempt of several"
	waitsLong = "waits longer than the tested limit"
)

// realTime lists the test functions that depend on real time, with the reason.
var realTime = map[string]string{
	"apiserver/TestHangingSource":                                    expiry,
	"apiserver/filters/tenants":                                      slowPart,
	"apiserver/serving/coalesce/TestSendsInTurns":                    expiry,
	"apiserver/internal/TestClose":                                   moreTime,
	"apiserver/store/until":                                          "pauses between its attempts, for two minutes",
	"apiserver/store/TestMemberLosesWatches":                         expiry,
	"kubernetes/after":                                               "its callers run in a bubble, which the search does not see behind the helper that starts it",
	"kubernetes/everything":                                          inBubble,
	"cmd/kelson-node/internal/machine/TestTryHangs":                  expiry,
	"cmd/kelson/TestExitsWithStdin":                                  moreTime,
	"kubernetes/apitest/TestTokensWhenTheClockIsSet":                 inBubble,
	"kubernetes/controlplane/TestGarbageCollectionOfAggregatedKinds": inBubble,
	"kubernetes/controlplane/left":                                   inBubble,
	"kubernetes/node/process/TestExecOfPausingClient":                waitsLong,
	"kubernetes/node/process/TestProcessGroupIsKilled":               "pauses between its attempts, for two minutes",
	"kubernetes/node/process/TestStrayProcessesOfOneContainer":       moreTime,
	"kubernetes/addPod":                                              inBubble,
	"lab/explore/act":                                                inBubble,
	"lab/explore/renames":                                            inBubble,
	"operator/ReconcileYielding":                                     inBubble,
	"operator/TestRepetition":                                        inBubble,
	"operator/informer/OnAdd":                                        slowPart,
	"operator/informer/TestSoak":                                     soaks,
	"operator/informer/add":                                          slowPart,
	"operator/informer/lag":                                          inBubble,
	"operator/informer/play":                                         inBubble,
	"operator/informer/write":                                        slowPart,
	"operator/internal/soak/TestSoak":                                soaks,
	"operator/leader/enter":                                          inBubble,
	"operator/leader/TestHandOverStory":                              moreTime,
	"operator/leader/lead":                                           slowPart,
	"operator/manager/TestLoops":                                     slowPart,
	"operator/manager/TestSecureMetrics":                             "pauses between its attempts, for two minutes",
	"operator/operatortest/TestChild":                                "is the process that its parent kills",
	"operator/trace/Get":                                             slowPart,
	"operator/trace/List":                                            slowPart,
	"operator/trace/Update":                                          slowPart,
	"test/etcd/TestFaults":                                           moreTime,
	"test/etcd/TestKilledServer":                                     moreTime,
	"test/etcd/TestServersUnderFaults":                               moreTime,
	"test/etcd/commit":                                               oneTry,
	"test/etcd/harm":                                                 "is the length of a fault",
	"test/etcd/healthy":                                              oneTry,
	"test/etcd/read":                                                 oneTry,
	"test/etcd/testCutOff":                                           expiry,
	"test/fuzz/FuzzRequest":                                          "a request that takes longer than maxTime is a fault",
	"test/fuzz/do":                                                   "a request that takes longer than maxTime is a fault",
}

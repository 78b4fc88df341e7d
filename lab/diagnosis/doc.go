// Package diagnosis says why an object of any cluster is not in its desired state: from its status,
// its Events, what it refers to, and the objects that it owns. It needs no operator of ours, and
// only reads.
//
//	findings, err := diagnosis.Of(ctx, diagnosis.Cluster{Client: c, Logs: logs}, obj)
//
// # Model
//
// A [Finding] is one fact, with its source and what has to happen next. Rules for kinds (pod.go,
// workload.go, and so on) and rules for all kinds (general.go) add findings; an object that owns or
// selects others also gets theirs, grouped: twenty pods that wait for the same reason are one
// finding. The first finding is the best answer. The order is that of [Severity], and then that in
// which the rules found them: from the cause to its effects.
//
// A rule reports what the API says and interprets it only where Kubernetes documents the meaning.
// Objects that the user may not read are left out, with a finding that says so.
package diagnosis

package causes_test

import (
	"fmt"
	"strings"

	"kelson.dev/lab/causes"
)

// The exact cause of a write, from the trace of an operator.
func ExampleTrace_Explain() {
	const record = `{"id":1,"run":"a","time":"2030-01-02T15:04:05Z","controller":"shop","kind":"Shop","namespace":"default","name":"tea","causes":[{"event":"add","kind":"Shop","namespace":"default","name":"tea","resourceVersion":"7","manager":"kubectl-create"}],"writes":[{"verb":"create","kind":"ConfigMap","namespace":"default","name":"tea-config","resourceVersion":"8","changed":true}],"duration":"1ms"}`
	trace, err := causes.Read(strings.NewReader(record + "\n"))
	if err != nil {
		panic(err)
	}
	for _, object := range trace.Find("configmaps", "", "tea-config") {
		for _, step := range trace.Explain(object, 5).Writes {
			cause := step.By.Because[0].Cause
			fmt.Printf("%s by controller %s, because of %s %s by %s\n", step.Write.Verb, step.By.Controller, cause.Kind,
				cause.Name, cause.Manager)
		}
	}
	// Output: create by controller shop, because of Shop tea by kubectl-create
}

// The probable cause of a write, from the audit log of any cluster.
func ExampleReadAuditLog() {
	const audit = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"1","stage":"ResponseStarted","requestURI":"/apis/shop.io/v1/shops?watch=true","verb":"watch","user":{"username":"system:serviceaccount:shop:manager"},"userAgent":"manager/v1","objectRef":{"resource":"shops","apiGroup":"shop.io"},"requestReceivedTimestamp":"2030-01-02T15:04:00.000000Z","stageTimestamp":"2030-01-02T15:04:00.000000Z"}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"2","stage":"ResponseComplete","requestURI":"/","verb":"create","user":{"username":"ann"},"userAgent":"kubectl/v1.37","objectRef":{"resource":"shops","apiGroup":"shop.io","namespace":"default","name":"tea"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2030-01-02T15:04:05.000000Z","stageTimestamp":"2030-01-02T15:04:05.004000Z"}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"3","stage":"ResponseComplete","requestURI":"/","verb":"create","user":{"username":"system:serviceaccount:shop:manager"},"userAgent":"manager/v1","objectRef":{"resource":"configmaps","namespace":"default","name":"tea-config"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2030-01-02T15:04:05.010000Z","stageTimestamp":"2030-01-02T15:04:05.012000Z"}
`
	log, err := causes.ReadAuditLog(strings.NewReader(audit))
	if err != nil {
		panic(err)
	}
	for _, object := range log.Find("configmap", "", "tea-config") {
		steps, _ := log.Explain(object, 5)
		for _, step := range steps {
			fmt.Printf("%s by %v\n", step.Verb, step.By)
			fmt.Printf("probably because of a %s of %v, %v earlier\n", step.Probably.Cause.Verb,
				step.Probably.Cause.Object(), step.Probably.Earlier.Duration)
			for _, evidence := range step.Probably.Evidence {
				fmt.Println("-", evidence)
			}
			fmt.Println("first cause:", step.Probably.Cause.First)
		}
	}
	// Output:
	// create by manager (system:serviceaccount:shop:manager)
	// probably because of a create of shops.shop.io default/tea, 10ms earlier
	// - manager received it: it watches shops.shop.io
	// - the names are alike
	// first cause: a request of ann
}

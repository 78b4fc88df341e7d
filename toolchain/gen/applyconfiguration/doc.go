// Package applyconfiguration writes apply configurations, in the shape of applyconfiguration-gen's: for every struct that a kind is made of a
// type FooApplyConfiguration whose fields are all optional, a function Foo that makes one, and a With function for each field.
//
//	OUTPUT/applyconfiguration/GROUP/VERSION/kind.go
//
//	shop.Pizza("margherita", "default").WithSpec(shop.PizzaSpec().WithSize(2))
//
// Kubernetes' own types are client-go's apply configurations. There are no Extract functions.
package applyconfiguration

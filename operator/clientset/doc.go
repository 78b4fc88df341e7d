// Package clientset is what generated clients, listers and informers are made of. Programs use what was generated:
//
//	clients, err := versioned.NewForConfig(cfg)
//	pizza, err := clients.ShopV1().Pizzas("default").Get(ctx, "margherita", metav1.GetOptions{})
//
//	factory := externalversions.NewSharedInformerFactory(clients, 0)
//	pizzas := factory.Shop().V1().Pizzas()
//	pizzas.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{…})
//	factory.StartWithContext(ctx)
//	err = factory.WaitForCacheSyncWithContext(ctx)
//	pizza, err = pizzas.Lister().Pizzas("default").Get("margherita")
//
// The shape is that of client-gen's, lister-gen's and informer-gen's clients. Requests go by client-go's own typed client; informers are
// those of package [kelson.dev/operator/informer]: one watch per kind, no polling, and nothing runs after its context has ended.
//
// # What is different
//
//   - The client does not limit itself unless the configuration says so (QPS or RateLimiter): servers limit, by priority and fairness.
//   - An informer that is first used after the factory was started runs at once; Start need not be called again.
//   - Objects of listers and handlers are shared and must not be changed, as ever.
package clientset

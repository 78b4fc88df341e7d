// Command main is the operator cleans-up-without-finalizer of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("cleans-up-without-finalizer") }

// The load of scripts/bench: Go's gRPC client, with calls side by side.
//
// Arguments: endpoint, topic, group, "tls" or "plain". Each line of standard input is "send N" or "receive N"; its
// answer is a line with the number of messages and the seconds that they took.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	inFlight        = 64
	receivers       = 4
	batch           = 32
	bodyBytes       = 1024
	await           = 5 * time.Second
	invisible       = 300 * time.Second
	callTimeout     = 30 * time.Second
	messageNotFound = 40401
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// side runs work in so many goroutines, and returns when all are done.
func side(count int, work func()) {
	var running sync.WaitGroup
	for range count {
		running.Add(1)
		go func() {
			defer running.Done()
			work()
		}()
	}
	running.Wait()
}

func send(producer rocketmq.Producer, topic string, count int64) int64 {
	var taken atomic.Int64
	side(inFlight, func() {
		for taken.Add(1) <= count {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			_, err := producer.Send(ctx, &rocketmq.Message{Topic: topic, Body: make([]byte, bodyBytes)})
			cancel()
			check(err)
		}
	})
	return count
}

// receive acknowledges each message by a call of its own, and stops at the count or when nothing comes.
func receive(consumer rocketmq.SimpleConsumer, count int64) int64 {
	var acked atomic.Int64
	free := make(chan struct{}, inFlight)
	side(receivers, func() {
		for acked.Load() < count {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			found, err := consumer.Receive(ctx, batch, invisible)
			cancel()
			if status, ok := rocketmq.AsErrRpcStatus(err); ok && status.Code == messageNotFound {
				return
			}
			check(err)
			var acks sync.WaitGroup
			for _, one := range found {
				acks.Add(1)
				free <- struct{}{}
				go func() {
					defer acks.Done()
					ackCtx, ackCancel := context.WithTimeout(context.Background(), callTimeout)
					check(consumer.Ack(ackCtx, one))
					ackCancel()
					acked.Add(1)
					<-free
				}()
			}
			acks.Wait()
		}
	})
	return acked.Load()
}

func main() {
	endpoint, topic, group := os.Args[1], os.Args[2], os.Args[3]
	rocketmq.EnableSsl = os.Args[4] == "tls"
	config := &rocketmq.Config{Endpoint: endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
	producer, err := rocketmq.NewProducer(config, rocketmq.WithTopics(topic))
	check(err)
	check(producer.Start())
	var consumer rocketmq.SimpleConsumer
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var count int64
		word, number, _ := strings.Cut(lines.Text(), " ")
		_, err := fmt.Sscan(number, &count)
		check(err)
		if word == "receive" && consumer == nil {
			all := map[string]*rocketmq.FilterExpression{topic: rocketmq.NewFilterExpression("*")}
			consumer, err = rocketmq.NewSimpleConsumer(
				config, rocketmq.WithSimpleAwaitDuration(await), rocketmq.WithSimpleSubscriptionExpressions(all),
			)
			check(err)
			check(consumer.Start())
		}
		begun := time.Now()
		done := int64(0)
		if word == "receive" {
			done = receive(consumer, count)
		} else {
			done = send(producer, topic, count)
		}
		fmt.Println(done, time.Since(begun).Seconds())
	}
}

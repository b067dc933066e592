// Starts a broker for a test, sends an order and receives it, with Apache's Go client. Needs pymq on PATH.
//
//	go run .
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func startBroker() (namesrv string, stop func(), err error) {
	cmd := exec.Command("pymq", "standalone", "--ephemeral", "--namesrv-port", "0", "--port", "0", "--json")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() }
	var ready struct{ Namesrv, Broker string }
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil {
		stop()
		return "", nil, err
	}
	return ready.Namesrv, stop, nil
}

func roundTrip(namesrv string) (string, error) {
	sender, err := rocketmq.NewProducer(producer.WithGroupName("orders"), producer.WithNameServer([]string{namesrv}))
	if err != nil {
		return "", err
	}
	if err := sender.Start(); err != nil {
		return "", err
	}
	defer sender.Shutdown()
	// A send would make the topic too, but the consumer below wants to find it at once.
	if err := exec.Command("pymq", "topic", "create", "Orders", "--namesrv", namesrv).Run(); err != nil {
		return "", err
	}
	message := primitive.NewMessage("Orders", []byte(`{"id": 1}`)).WithTag("paid")
	if _, err := sender.SendSync(context.Background(), message); err != nil {
		return "", err
	}

	received := make(chan string, 1)
	receiver, err := rocketmq.NewPushConsumer(consumer.WithGroupName("billing"),
		consumer.WithNameServer([]string{namesrv}), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return "", err
	}
	err = receiver.Subscribe("Orders", consumer.MessageSelector{Type: consumer.TAG, Expression: "paid"},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			select {
			case received <- string(messages[0].Body):
			default:
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return "", err
	}
	if err := receiver.Start(); err != nil {
		return "", err
	}
	defer receiver.Shutdown()
	select {
	case body := <-received:
		return body, nil
	case <-time.After(60 * time.Second):
		return "", fmt.Errorf("nothing came")
	}
}

func main() {
	namesrv, stop, err := startBroker()
	if err != nil {
		log.Fatal(err)
	}
	body, err := roundTrip(namesrv)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("received", body)
}

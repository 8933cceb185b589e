<?php
echo 'ready';
